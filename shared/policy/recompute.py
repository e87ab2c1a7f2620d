"""Gradient checkpointing (Chen et al., 2016): a layer keeps its input only, and runs again in the backward pass.

Transformers has a switch for it, which acts in training mode only; there a model would also drop out activations, and
part from its sampler.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from shared.errors import UserError


def recomputable_layers(model: PreTrainedModel) -> list[GradientCheckpointingLayer]:
    """The layers that can run again by themselves; UserError for a model that names none."""
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"policy.trainer.gradient_checkpointing: {type(model).__name__} names no layers to recompute")
    return layers


@contextmanager
def recomputed_layers(model: PreTrainedModel) -> Generator[None]:
    """While it lasts, what runs through `model` keeps each layer's input, and nothing else of the layer.

    `forward` is what is wrapped, not the call: a module's hooks (as those of FSDP) run once.
    """
    layers = recomputable_layers(model)
    for layer in layers:
        forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
        setattr(layer, "forward", forward)  # noqa: B010 - to a type checker a method is no attribute
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
