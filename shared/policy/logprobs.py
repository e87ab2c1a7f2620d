"""Log-probs of a row's own tokens, computed at its trained positions only."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel


def trained_logprobs(model: PreTrainedModel, tokens: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """log softmax(logits / temperature) of each trained token given those before it: [rows, length], 0 elsewhere.

    `tokens` and `mask` are [rows, length], right-padded; a first token has nothing before it, so its mask is 0.
    The logits are [trained tokens, vocabulary], in float32: those of other positions are never computed.
    """
    trained = mask[:, 1:].bool()
    with _head_at(model, trained):
        logits = model(input_ids=tokens, use_cache=False).logits[0]
    picked = -functional.cross_entropy(logits.float() / temperature, tokens[:, 1:][trained], reduction="none")
    placed = torch.zeros(trained.shape, dtype=picked.dtype, device=picked.device).masked_scatter(trained, picked)
    return functional.pad(placed, (1, 0))


@contextmanager
def _head_at(model: PreTrainedModel, trained: Tensor) -> Generator[None]:
    """Give the output head only the hidden states that predict a trained token.

    A hook on the head rather than a call of it: what a model does to its logits afterwards (a soft cap, a scale) stays.
    """

    def select(_: Any, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden, *rest = arguments
        return (hidden[:, :-1][trained][None], *rest)

    handle = model.get_output_embeddings().register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()
