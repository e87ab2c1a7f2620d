"""Log-probs of a row's own tokens, computed at its trained positions only, and a chunk of logits at a time.

The logits of a whole micro-batch are several times its other activations: 2,048 tokens of a vocabulary of 150,000 are
1.2 GB, and the softmax and its gradient as much again. So the model runs once without its head, and then only with it,
on one chunk after another, each computed anew in the backward pass.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from shared.errors import UserError

CHUNK_LOGITS = {"cpu": 2**24, "cuda": 2**27}
"""Logits that are held at once, by device: 64 and 512 MiB in float32. A GPU needs more rows to be busy."""


def trained_logprobs(model: PreTrainedModel, tokens: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """log softmax(logits / temperature) of each trained token given those before it: [rows, length], 0 elsewhere.

    `tokens` and `mask` are [rows, length], right-padded; a first token has nothing before it, so its mask is 0.
    Logits are float32, of at most `chunk_tokens` tokens at once; those of positions not trained are never computed.
    """
    trained = mask[:, 1:].bool()
    body = _run_body(model, tokens)
    hidden = body.last_hidden_state[:, :-1][trained]
    targets = tokens[:, 1:][trained]
    size = chunk_tokens(model)
    if len(targets) <= size:
        picked = _picked(model, body, hidden, targets, temperature)
    else:
        chunks = zip(hidden.split(size), targets.split(size), strict=True)
        recomputed = partial(checkpoint, _picked, model, body, use_reentrant=False, preserve_rng_state=False)
        picked = torch.cat([recomputed(*chunk, temperature) for chunk in chunks])
    placed = torch.zeros(trained.shape, dtype=picked.dtype, device=picked.device).masked_scatter(trained, picked)
    return functional.pad(placed, (1, 0))


def chunk_tokens(model: PreTrainedModel) -> int:
    """Trained tokens whose logits are held at once."""
    logits = CHUNK_LOGITS.get(model.device.type, CHUNK_LOGITS["cpu"])
    return max(1, logits // vocabulary_size(model))


def vocabulary_size(model: PreTrainedModel) -> int:
    """Logits of one token."""
    return model.config.get_text_config().vocab_size


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """UserError for a model whose logits do not follow from its last hidden states alone."""
    tokens = torch.arange(4, device=model.device)[None] % vocabulary_size(model)
    expected = model(input_ids=tokens, use_cache=False).logits[0]
    body = _run_body(model, tokens)
    if not torch.allclose(_logits(model, body, body.last_hidden_state[0]), expected, rtol=1e-3, atol=1e-4):
        name = type(model).__name__
        raise UserError(f"{name} cannot be trained: its logits do not follow from its last hidden states alone")


def _picked(model: PreTrainedModel, body: Any, hidden: Tensor, targets: Tensor, temperature: float) -> Tensor:
    logits = _logits(model, body, hidden).float()
    scaled = logits if temperature == 1 else logits / temperature
    return -functional.cross_entropy(scaled, targets, reduction="none")


def _run_body(model: PreTrainedModel, tokens: Tensor) -> Any:
    """The output of the model's body, with `last_hidden_state` [rows, length, width]; its head is given nothing."""
    seen = []
    handles = [
        model.base_model.register_forward_hook(lambda _, __, output: seen.append(output)),
        model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: (inputs[0][:, :0], *inputs[1:])),
    ]
    try:
        model(input_ids=tokens, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    if not seen or "last_hidden_state" not in seen[0]:
        raise UserError(f"{type(model).__name__} cannot be trained: it has no body apart from its head")
    return seen[0]


def _logits(model: PreTrainedModel, body: Any, hidden: Tensor) -> Tensor:
    """[tokens, vocabulary] of hidden states [tokens, width], as the model makes them from its body's output.

    Its own forward rather than its head: what it does to its logits afterwards (a soft cap, a scale) stays.
    """
    output = replace(body, last_hidden_state=hidden[None])
    model.base_model.forward = lambda *_, **__: output
    try:
        return model(inputs_embeds=hidden[None], use_cache=False).logits[0]
    finally:
        del model.base_model.forward
