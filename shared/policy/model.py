"""A causal language model from a Hugging Face folder: local files, safetensors, no code from the folder."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from shared.errors import UserError
from shared.policy.folder import check_model_folder

ATTENTION = (DynamicLayer, DynamicSlidingWindowLayer)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_model(folder: Path, device: torch.device, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The model in evaluation mode (no dropout: it would part the trainer from its sampler).

    UserError names the folder that is missing, is no model, or lacks some of the model's weights.
    """
    check_model_folder(folder)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
            dtype=dtype,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be loaded as a causal language model: {error}") from None
    model, report = loaded
    if report["missing_keys"]:
        raise UserError(f"{folder} lacks weights of its model: {', '.join(sorted(report['missing_keys'])[:5])}")
    if not all(type(layer) in ATTENTION for layer in DynamicCache(config=model.config).layers):
        raise UserError(f"{folder}: {type(model).__name__} has layers without attention, whose state padding corrupts")
    if "longrope" in _rotary_kinds(model):
        raise UserError(f"{folder}: its longrope embedding turns every token of a batch by the longest row beside it")
    return model.to(device).eval()


def _rotary_kinds(model: PreTrainedModel) -> set[str | None]:
    """Of all layers: the config has one description, or one for each type of layer."""
    described = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    return {each.get("rope_type") for each in [described, *described.values()] if isinstance(each, dict)}


def resolve_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one; UserError where CUDA is asked for and absent."""
    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name.startswith("cuda") and not available:
        raise UserError(f"policy.device is {name}, but this torch sees no CUDA device (torch {torch.__version__})")
    try:
        return torch.device(name)
    except RuntimeError:
        raise UserError(f"{name!r} is no device: cpu, cuda, cuda:1 and so on, or auto") from None


def set_threads(count: int, kind: str, device: torch.device) -> None:
    """Bound the threads of this process, and say so in its log."""
    torch.set_num_threads(count)
    print(f"{kind}: process {os.getpid()}, {count} torch threads, device {device}", file=sys.stderr, flush=True)


def use_deterministic_algorithms() -> None:
    """The same batch gives the same bits; torch raises where it has no such algorithm. Before CUDA is first used."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


def parameter_count(model: PreTrainedModel) -> int:
    """Parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
