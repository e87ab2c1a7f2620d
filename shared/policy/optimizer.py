"""AdamW over a model, with frozen embedding rows, and its state as named tensors."""

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import AdamW
from transformers import PreTrainedModel

from shared.errors import UserError
from shared.policy.config import TrainerConfig


def build_optimizer(model: PreTrainedModel, config: TrainerConfig) -> AdamW:
    """AdamW; only matrices decay, and never an embedding of which some rows are frozen."""
    frozen = _embedding(model) if frozen_rows(model) else None
    decaying, others = [], []
    for parameter in (p for p in model.parameters() if p.requires_grad):
        (decaying if parameter.ndim >= 2 and parameter is not frozen else others).append(parameter)
    groups = [{"params": decaying, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return AdamW([g for g in groups if g["params"]], lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def frozen_rows(model: PreTrainedModel) -> slice | None:
    """`frozen_embedding_rows: [first, last_exclusive]` of config.json: input embeddings that training leaves as is."""
    rows = getattr(model.config, "frozen_embedding_rows", None)
    if rows is None:
        return None
    first, last = rows
    if not 0 <= first < last <= len(_embedding(model)):
        raise UserError(f"config.json: frozen_embedding_rows {rows} are not rows of the input embedding")
    return slice(first, last)


def optimizer_state(model: PreTrainedModel, optimizer: AdamW) -> dict[str, Tensor]:
    """`exp_avg.<parameter>`, `exp_avg_sq.<parameter>`, `step.<parameter>`; empty before the first step."""
    named = ((name, optimizer.state.get(parameter, {})) for name, parameter in model.named_parameters())
    return {f"{key}.{name}": tensor for name, state in named for key, tensor in state.items()}


def load_optimizer_state(model: PreTrainedModel, optimizer: AdamW, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_state` gave, bit by bit."""
    optimizer.state.clear()
    parameters = dict(model.named_parameters())
    for key, tensor in tensors.items():
        kind, _, name = key.partition(".")
        parameter = parameters[name]
        optimizer.state[parameter][kind] = tensor.to(parameter.device)


def zero_frozen(model: PreTrainedModel) -> None:
    """Remove the gradient of the frozen embedding rows."""
    rows, gradient = frozen_rows(model), _embedding(model).grad
    if rows is not None and gradient is not None:
        gradient[rows] = 0


def apply_step(optimizer: AdamW, lr: float) -> None:
    """One optimiser step at this learning rate; the gradients are dropped."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def clip(model: PreTrainedModel, max_norm: float) -> float:
    """Scale the gradient down to `max_norm`; returns its norm before."""
    return float(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm))


def _embedding(model: PreTrainedModel) -> Parameter:
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, Parameter)
    return weight
