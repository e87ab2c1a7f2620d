"""What a trainer takes of its device's memory, told before the first step; UserError where that is more than there is.

Weights, gradients and AdamW's moments are counted. Activations are measured on two short rows, which tells what a token
keeps for the backward pass, whatever the architecture, the precision and the adapters.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from transformers import PreTrainedModel

from shared.errors import UserError
from shared.policy.batches import Example, MicroBatch, collate
from shared.policy.config import TrainerConfig
from shared.policy.logprobs import chunk_tokens, vocabulary_size
from shared.policy.recompute import recomputable_layers

MIB, GIB = 2**20, 2**30
FLOAT32 = 4
SHORT = 32
"""Tokens of the shorter row that is measured; the other one has twice as many."""
LOGIT_COPIES = 3
"""Logits, their log softmax, and the gradient of them."""
CGROUP = Path("/sys/fs/cgroup/memory.max")
ADVICE = "policy.trainer.gradient_checkpointing, a smaller policy.trainer.micro_batch_tokens, or policy.trainer.lora"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes. `activations` is an estimate, of one micro-batch of `tokens`; a longer row takes in proportion more."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    activations: int
    logits: int
    tokens: int
    available: int

    @property
    def total(self) -> int:
        """What one step takes at its peak."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.activations + self.logits

    def __str__(self) -> str:
        parts = {name: size for name, size in asdict(self).items() if name not in ("tokens", "available")}
        told = ", ".join(f"{name} {_told(size)}" for name, size in parts.items())
        return f"{told}: {_told(self.total)} of {_told(self.available)}, for micro-batches of {self.tokens} tokens"

    def check(self) -> None:
        """UserError where a step cannot fit."""
        if self.total > self.available:
            raise UserError(f"the trainer's memory does not fit its device: {self}. What helps: {ADVICE}")


def plan_memory(
    model: PreTrainedModel,
    config: TrainerConfig,
    logprobs: Callable[[MicroBatch], Tensor],
    reference: PreTrainedModel | None = None,
) -> MemoryPlan:
    """The plan of training `model`, whose forward pass is `logprobs`. `reference`: another model beside it."""
    gradients = _size(parameter for parameter in model.parameters() if parameter.requires_grad)
    tokens = config.micro_batch_tokens
    return MemoryPlan(
        weights=_size(model.parameters()),
        gradients=gradients,
        optimizer=2 * gradients,
        reference=_size(reference.parameters()) if reference is not None else 0,
        activations=_activations(model, logprobs, tokens, config.gradient_checkpointing),
        logits=LOGIT_COPIES * FLOAT32 * min(tokens, chunk_tokens(model)) * vocabulary_size(model),
        tokens=tokens,
        available=device_memory(model.device),
    )


@contextmanager
def fitting(what: str) -> Generator[None]:
    """A GPU that is full becomes a UserError that says what helps."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UserError(f"{what} does not fit the GPU: {str(error).splitlines()[0]} What helps: {ADVICE}") from None


def device_memory(device: torch.device) -> int:
    """Bytes: of the GPU, or of this machine or container."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    limit = CGROUP.read_text().strip() if CGROUP.is_file() else "max"
    return min(psutil.virtual_memory().total, int(limit) if limit.isdecimal() else 2**63)


def _activations(
    model: PreTrainedModel, logprobs: Callable[[MicroBatch], Tensor], tokens: int, recomputed: bool
) -> int:
    short, long = (_saved(model, logprobs, length) for length in (SHORT, 2 * SHORT))
    each = (long - short) / SHORT
    fixed = max(0, short - SHORT * each)  # copies of the weights in bfloat16, where there are
    if recomputed:  # the input of each layer, and all of the one that runs again
        layers = len(recomputable_layers(model))
        each = each / layers + layers * FLOAT32 * model.config.get_text_config().hidden_size
    return int(fixed + tokens * each)


def _saved(model: PreTrainedModel, logprobs: Callable[[MicroBatch], Tensor], length: int) -> int:
    """Bytes that one row of this length keeps for its backward pass, with one trained token."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = [place % vocabulary_size(model) for place in range(length)]
    row = Example("measured", ids, [0] * (length - 1) + [1], [0.0] * length, advantage=0.0, multiplicity=1.0)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        alive = logprobs(collate([row], model.device))  # as long as it lives, no address is used twice
    del alive
    return sum(kept.values())


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _told(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"
