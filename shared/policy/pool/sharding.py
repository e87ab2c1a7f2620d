"""A model whose parameters, gradients and optimiser state are spread over the ranks of a mesh (FSDP2), and back.

Every rank holds a slice of each tensor, by its first dimension, and gathers a layer only while that layer runs.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from shared.policy.optimizer import frozen_rows


def shard(model: PreTrainedModel, mesh: DeviceMesh) -> PreTrainedModel:
    """Shard `model` in place, layer by layer; every rank has loaded the same weights.

    A gradient is the sum over the ranks: the denominators of a batch are those of all of it, so nothing is averaged.
    """
    layers = set(model._no_split_modules or [])
    for module in [module for module in model.modules() if type(module).__name__ in layers] + [model]:
        sharded = fully_shard(module, mesh=mesh)
        sharded.set_force_sum_reduction_for_comms(True)
        sharded.set_gradient_divide_factor(1.0)
    return model


def group_of(model: PreTrainedModel) -> ProcessGroup:
    """The ranks of a sharded model, whose collectives have the deadline of its mesh."""
    weight = next(model.parameters())
    assert isinstance(weight, DTensor)
    return weight.device_mesh.get_group()


def whole(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """The full tensors, on the CPU, where `keep`; elsewhere nothing. Every rank calls it: slices are gathered."""
    found = {}
    for name, tensor in tensors.items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            found[name] = full.detach().cpu()
    return found


def portion(full: Tensor, like: Tensor) -> Tensor:
    """This rank's slice of `full`, sharded as `like` is; no rank waits for another."""
    if not isinstance(like, DTensor) or full.shape != like.shape:
        return full
    return distribute_tensor(full.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def overwrite(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Put full `weights` into the sharded model, in place. Tied ones may be missing: they are the same tensor."""
    for name, tensor in model.state_dict().items():
        if name in weights:
            tensor.copy_(portion(weights[name], tensor))


def untied(model: PreTrainedModel) -> dict[str, Tensor]:
    """The state of a model, tied tensors once, as its file has them."""
    tied = model.all_tied_weights_keys or {}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def zero_frozen(model: PreTrainedModel) -> None:
    """Remove the gradient of the frozen embedding rows, whichever rank has them."""
    rows, weight = frozen_rows(model), model.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    if rows is not None and weight.grad is not None:
        kept = torch.ones(weight.shape)
        kept[rows] = 0
        weight.grad.mul_(portion(kept, weight))


def clip(model: PreTrainedModel, max_norm: float) -> float:
    """Scale the gradient down to `max_norm`, over all ranks; returns its norm before, the same on each."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
