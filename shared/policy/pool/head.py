"""Log-probs of a sharded model's own tokens: in one forward pass of the whole model, its head in chunks.

A shard may not run the head by itself, as a single process does (`shared.policy.logprobs`): each entry into the model
gathers slices from the other shards, and they would enter another number of times.
"""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from shared.errors import UserError

CHUNK_LOGITS = 2**24
"""Logits that are held at once."""


def trained_logprobs(model: PreTrainedModel, tokens: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """As `shared.policy.logprobs.trained_logprobs`, with the same arguments."""
    trained = mask[:, 1:].bool()
    with _head_gives(model, trained, tokens[:, 1:][trained], temperature):
        picked = model(input_ids=tokens, use_cache=False).logits[0, :, 0]
    placed = torch.zeros(trained.shape, dtype=picked.dtype, device=picked.device).masked_scatter(trained, picked)
    return functional.pad(placed, (1, 0))


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """UserError for a model that does something to its logits after its head (a soft cap, a scale)."""
    seen: list[Tensor] = []
    handle = model.get_output_embeddings().register_forward_hook(lambda _, __, output: seen.append(output))
    try:
        tokens = torch.arange(4, device=model.device)[None] % model.config.get_text_config().vocab_size
        logits = model(input_ids=tokens, use_cache=False).logits
    finally:
        handle.remove()
    if not torch.equal(seen[0], logits):
        raise UserError(f"{type(model).__name__} changes its logits after its head: it cannot be trained in shards")


@contextmanager
def _head_gives(model: PreTrainedModel, trained: Tensor, targets: Tensor, temperature: float) -> Generator[None]:
    """For a while the head gives log-probs [1, trained tokens, 1] in the place of logits."""
    head = model.get_output_embeddings()
    project = head.forward
    size = max(1, CHUNK_LOGITS // model.config.get_text_config().vocab_size)

    def picked(hidden: Tensor, ids: Tensor) -> Tensor:
        return -functional.cross_entropy(project(hidden).float() / temperature, ids, reduction="none")

    def forward(hidden: Tensor) -> Tensor:
        chunks = zip(hidden[:, :-1][trained].split(size), targets.split(size), strict=True)
        parts = [checkpoint(picked, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
        return torch.cat(parts)[None, :, None]

    head.forward = forward
    try:
        yield
    finally:
        del head.forward
