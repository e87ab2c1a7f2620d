"""Prompts into a key-value cache: in buckets of like length, merged into one left-padded batch for decoding.

On a small model padding costs more than a further forward pass, and prompts of different turns differ much in length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

PADDING_TOKENS = 128
"""What a bucket may waste on padding: about what one more forward pass of a tiny model costs."""


@dataclass(slots=True)
class Context:
    """Rows that are being decoded. `visible` [rows, width] is False on left padding; None where no row has any.

    `position` [rows, 1] is that of the next token; `length` is the width of the cache.
    """

    cache: Cache
    visible: Tensor | None
    position: Tensor
    length: int
    plain: bool

    def advance(self, model: PreTrainedModel, tokens: Tensor) -> Tensor:
        """Feed one token a row, [rows]; returns the next logits [rows, vocabulary]."""
        self.length += 1
        mask = None if self.visible is None else self.visible[:, : self.length]
        if mask is not None and self.plain:
            mask = mask[:, None, None, :]
        logits = _forward(model, tokens[:, None], mask, self.position, self.cache)
        self.position = self.position + 1
        return logits


def prefill(model: PreTrainedModel, prompts: Sequence[Sequence[int]], room: int) -> tuple[Tensor, Context]:
    """Run `prompts`, shortest first; returns the logits after each [rows, vocabulary], and the rows' context.

    `room`: how many tokens will be decoded at most.
    """
    lengths = [len(prompt) for prompt in prompts]
    plain = _plain(model)
    parts = buckets(lengths, PADDING_TOKENS) if plain else [slice(0, len(prompts))]
    results = [_prefill(model, prompts[part], plain) for part in parts]
    cache = results[0][1] if len(results) == 1 else _merge([cache for _, cache in results])
    counts = torch.tensor(lengths, device=model.device)[:, None]
    width = lengths[-1] + room
    visible = None if lengths[0] == lengths[-1] else _visible(counts, lengths[-1], width)
    return torch.cat([logits for logits, _ in results]), Context(cache, visible, counts, lengths[-1], plain)


def buckets(lengths: Sequence[int], padding: int) -> list[slice]:
    """Cut ascending `lengths` into runs, longest first in the making, each with at most `padding` tokens to fill up."""
    parts, end, waste = [], len(lengths), 0
    for start in range(len(lengths) - 1, -1, -1):
        waste += lengths[end - 1] - lengths[start]
        if waste > padding:
            parts.append(slice(start + 1, end))
            end, waste = start + 1, 0
    return [slice(0, end), *reversed(parts)]


def _prefill(model: PreTrainedModel, prompts: Sequence[Sequence[int]], plain: bool) -> tuple[Tensor, Cache]:
    longest = len(prompts[-1])
    rows = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    counts = torch.tensor([len(prompt) for prompt in prompts], device=model.device)[:, None]
    cache = DynamicCache(config=model.config)
    mask = None
    if len(prompts[0]) < longest:
        mask = _visible(counts, longest, longest)
        mask = _causal(mask) if plain else mask
    position = (torch.arange(longest, device=model.device) - (longest - counts)).clamp_(min=0)
    return _forward(model, torch.tensor(rows, device=model.device), mask, position, cache), cache


def _forward(model: PreTrainedModel, tokens: Tensor, mask: Tensor | None, position: Tensor, cache: Cache) -> Tensor:
    output = model(
        input_ids=tokens, attention_mask=mask, position_ids=position, cache=cache, use_cache=True, logits_to_keep=1
    )
    return output.logits[:, -1]


def _visible(counts: Tensor, longest: int, width: int) -> Tensor:
    return torch.arange(width, device=counts.device) >= longest - counts


def _causal(visible: Tensor) -> Tensor:
    """[rows, 1, length, length]. Padding sees itself: a row of softmax over nothing would be NaN."""
    length = visible.shape[1]
    square = torch.ones(length, length, dtype=torch.bool, device=visible.device)
    return ((square.tril() & visible[:, None, :]) | square.tril().triu())[:, None]


def _plain(model: PreTrainedModel) -> bool:
    """Every layer attends to all of the past: then caches can be merged, and one mask serves them all."""
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)


def _merge(caches: list[Cache]) -> Cache:
    longest = max(cache.get_seq_length() for cache in caches)

    def join(states: list[Tensor]) -> Tensor:
        return torch.cat([functional.pad(s, (0, 0, longest - s.shape[-2], 0)) for s in states])

    layers = zip(*(cache.layers for cache in caches), strict=True)
    return DynamicCache([(join([x.keys for x in layer]), join([x.values for x in layer])) for layer in layers])
