"""LoRA (Hu et al., 2021) by peft: small matrices beside a frozen base; what leaves the trainer is merged weights.

The base never changes. So a checkpoint's adapters, with the model that the run started from, are its weights bit by
bit, and the base with its adapters off is the reference model.
"""

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftConfig
from peft import inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from torch import Tensor
from torch.nn import Module, Parameter
from transformers import PreTrainedModel

from shared.errors import UserError
from shared.policy.config import LoraConfig

NAME = "default"
SEED = 0
"""Of the first adapters: every start of a run begins with the same ones."""


def add_adapters(model: PreTrainedModel, config: LoraConfig) -> None:
    """Freeze `model`, and put float32 adapters beside its target layers. UserError names a target that cannot be."""
    targets = config.target_modules
    if targets != "all-linear":
        _check_targets(model, targets)
    wanted = targets if targets == "all-linear" else list(targets)
    alpha: Any = config.alpha  # peft divides it by the rank: it need not be whole
    peft = PeftConfig(r=config.rank, lora_alpha=alpha, target_modules=wanted, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(SEED)
        try:
            inject_adapter_in_model(peft, model, NAME)
        except ValueError as error:  # a layer of a kind that peft has no adapter for
            raise UserError(f"policy.trainer.lora.target_modules: {error}") from None
    for parameter in adapter_state(model).values():
        parameter.data = parameter.data.float()


def adapter_state(model: Module) -> dict[str, Parameter]:
    """The adapters' own tensors, by the model's names for them; empty for a model without adapters."""
    return {
        f"{layer}.{name}": parameter
        for layer, module in _layers(model).items()
        for name, parameter in module.named_parameters()
        if name.startswith(("lora_A.", "lora_B."))
    }


@torch.no_grad()
def load_adapter_state(model: Module, tensors: dict[str, Tensor]) -> None:
    """Put back what `adapter_state` gave, bit by bit; UserError where the adapters are others than the model's."""
    own = adapter_state(model)
    if {name: t.shape for name, t in own.items()} != {name: t.shape for name, t in tensors.items()}:
        raise UserError("the checkpoint was trained with another policy.trainer.lora: resume it with that one")
    for name, tensor in tensors.items():
        own[name].copy_(tensor)


def check_base(model: Module, merged: Path) -> None:
    """UserError where the file of merged weights has another base than `model`: what has no adapter must be equal."""
    own = model.state_dict()
    with safe_open(merged, "pt") as file:
        for name in own.keys() & set(file.keys()):
            saved, base = file.get_tensor(name), own[name].cpu()
            coarser = min(saved.dtype, base.dtype, key=lambda dtype: dtype.itemsize)
            if not torch.equal(saved.to(coarser), base.to(coarser)):
                raise UserError(f"{merged} is not of this policy.model: its {name} is another; resume it with its own")


@torch.no_grad()
def merged_weights(model: Module) -> dict[str, Tensor]:
    """The model's weights under their own names, each adapter added to its layer; those of the base where none is."""
    adapters = adapter_state(model).keys()
    weights = {name.replace(".base_layer.", "."): t for name, t in model.state_dict().items() if name not in adapters}
    for layer, module in _layers(model).items():
        base = module.get_base_layer().weight
        weights[f"{layer}.weight"] = (base.float() + module.get_delta_weight(NAME)).to(base.dtype)
    return weights


@contextmanager
def without_adapters(model: Module) -> Generator[None]:
    """The base alone, for as long as the context lasts."""
    layers = _layers(model).values()
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def _layers(model: Module) -> dict[str, Any]:
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def _check_targets(model: PreTrainedModel, targets: tuple[str, ...]) -> None:
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    for target in targets:
        found = [m for name, m in model.named_modules() if name == target or name.endswith(f".{target}")]
        if not found:
            raise UserError(f"policy.trainer.lora.target_modules: {type(model).__name__} has no layer {target}")
        if any(module is end for module, end in itertools.product(found, ends)):
            raise UserError(
                f"policy.trainer.lora.target_modules: {target} is an embedding or the head; these stay frozen"
            )
