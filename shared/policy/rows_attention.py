"""Attention over rows that differ in length, in one forward pass: each token is fed once, and nothing is padded.

The pass is one flat sequence of tokens: one of each decoding row, then the new tokens of each joining row. All of a
model but its attention treats tokens alike; attention looks up here which row's keys and values a token may see.
"""

from bisect import bisect_left
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from shared.errors import UserError
from shared.policy.buckets import buckets
from shared.policy.kv_rows import KeyValueRows

NAME = "tandem_rows"
PADDING = 512
"""Padded queries that joining rows of like length may cost: they go through attention only."""
ALONE = 512
"""New tokens from which a row attends by itself: for long rows of unlike length, a mask costs more than calls do."""
MASK = 2**24
"""Elements of a mask, at most, but for one query's: queries beyond it attend in parts, each with a mask of its own."""
UNKNOWN = ("softcap", "s_aux", "position_bias")
"""Changes of the attention scores that some models ask for."""


def use_rows_attention(model: PreTrainedModel) -> None:
    """Let the model's layers attend through the `rows` that a forward pass is given, a `Pass`."""
    AttentionInterface.register(NAME, _attend)
    model.set_attn_implementation(NAME)


@contextmanager
def rows_attention(model: PreTrainedModel) -> Generator[None]:
    """The model attends as it did before, afterwards."""
    before = model.config._attn_implementation
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    rows: "Pass | None" = None,
    **options: Any,
) -> tuple[Tensor, None]:
    if rows is None or any(options.get(name) is not None for name in UNKNOWN):
        raise UserError(f"the attention of {type(module).__name__} is of a kind that the sampler does not know")
    return rows.attend(int(module.layer_idx), query, key, value, scaling, sliding_window), None  # ty: ignore


@dataclass(frozen=True, slots=True)
class Fed:
    """New tokens of one row: `count` of them, after the `past` that it already has."""

    past: int
    count: int


class Pass:
    """The layout of one forward pass: row i of `block` is fed `fed[i]`, which are in the order of their counts."""

    def __init__(self, block: KeyValueRows, fed: Sequence[Fed]) -> None:
        self._block = block
        device = block.shape.device
        positions = [position for new in fed for position in range(new.past, new.past + new.count)]
        starts = [row * block.capacity for row, new in enumerate(fed) for _ in range(new.count)]
        self.positions = torch.tensor([positions], device=device)
        """Of each new token in its row, [1, tokens]."""
        self._lines = block.lines(self.positions[0] + torch.tensor(starts, device=device))
        single = sum(new.count == 1 for new in fed)
        self._groups = [_Group(device, fed, slice(0, single), 0)] if single else []
        start = single
        counts = [new.count for new in fed[single:]]
        for part in _together(counts):
            rows = slice(single + part.start, single + part.stop)
            self._groups.append(_Group(device, fed, rows, start))
            start += sum(counts[part])

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None, window: int | None
    ) -> Tensor:
        """Query, key and value [1, heads, tokens, dim] of the new tokens; returns [1, tokens, heads, dim]."""
        keys, values = self._block.write(layer, self._lines, key[0], value[0])
        query = query[0].transpose(0, 1)
        parts = [group.attend(query, keys, values, scaling, window) for group in self._groups]
        return (parts[0] if len(parts) == 1 else torch.cat(parts))[None]


class _Group:
    """Rows side by side in the block that attend together, their queries padded to the longest."""

    def __init__(self, device: torch.device, fed: Sequence[Fed], rows: slice, start: int) -> None:
        self._rows, self._start = rows, start
        new = fed[rows]
        self._count = max(f.count for f in new)
        self._tokens = sum(f.count for f in new)
        self._length = max(f.past + f.count for f in new)
        self._longest = max(f.past for f in new)
        self._past = torch.tensor([f.past for f in new], device=device)
        self._even = self._tokens == self._count * len(new)
        self._causal = self._even and not any(f.past for f in new)
        self._alike = self._even and self._count == 1 and len({f.past for f in new}) == 1
        self._masks: dict[int | None, Tensor | None] = {}
        if not self._even:
            self._gather, self._real = _padding([f.count for f in new], self._count, device)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None, window: int | None) -> Tensor:
        """Query [tokens of the pass, heads, dim]; returns the group's own, [tokens, heads, dim]."""
        query = query[self._start : self._start + self._tokens]
        heads, dim = query.shape[1:]
        if not self._even:
            query = query.index_select(0, self._gather)
        query = query.view(-1, self._count, heads, dim).transpose(1, 2)
        k, v = (x[self._rows, :, : self._length] for x in (keys, values))
        if window is not None and window >= self._length:
            window = None
        if self._causal and window is None:
            shared = heads != k.shape[1]
            out = scaled_dot_product_attention(query, k, v, is_causal=True, scale=scaling, enable_gqa=shared)
        else:
            out = self._masked(query, k, v, scaling, window)
        out = out.transpose(1, 2).reshape(-1, heads, v.shape[-1])
        return out if self._even else out.index_select(0, self._real)

    def _masked(self, query: Tensor, k: Tensor, v: Tensor, scaling: float | None, window: int | None) -> Tensor:
        """Keys beyond a query's own are masked; a mask that would be too large is made and used part by part."""
        fold = query.shape[1] // k.shape[1]
        size = max(1, MASK // (len(query) * fold * self._length))
        if size >= self._count:
            if window not in self._masks:  # the first layer's is that of all
                everything = self._alike and window is None
                whole = None if everything else self._mask(query.dtype, fold, window, range(self._count))
                self._masks[window] = whole
            return _folded(query, k, v, self._masks[window], scaling)
        parts = []
        for start in range(0, self._count, size):
            part = range(start, min(start + size, self._count))
            mask = self._mask(query.dtype, fold, window, part)
            seen = mask.shape[-1]
            parts.append(_folded(query[:, :, start : part.stop], k[:, :, :seen], v[:, :, :seen], mask, scaling))
        return torch.cat(parts, dim=2)

    def _mask(self, dtype: torch.dtype, fold: int, window: int | None, queries: range) -> Tensor:
        """To be added to the scores of some queries, [rows, 1, fold x queries, as many keys as they may see]."""
        device = self._past.device
        column = torch.arange(min(self._length, self._longest + queries.stop), device=device)
        position = self._past[:, None, None] + torch.arange(queries.start, queries.stop, device=device)[:, None]
        seen = column <= position
        if window is not None:
            seen &= column > position - window
        mask = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, torch.finfo(dtype).min)
        mask = mask[:, None]
        return mask if len(queries) == 1 else mask.repeat(1, 1, fold, 1)


def _folded(query: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Heads that share keys and values are folded into the queries, so that those are not copied for each."""
    rows, heads, count, dim = query.shape
    out = scaled_dot_product_attention(query.reshape(rows, k.shape[1], -1, dim), k, v, attn_mask=mask, scale=scaling)
    return out.reshape(rows, heads, count, v.shape[-1])


def _together(counts: list[int]) -> list[slice]:
    """Which rows, of ascending counts, attend together."""
    short = bisect_left(counts, ALONE)
    alone = [slice(row, row + 1) for row in range(short, len(counts))]
    return (buckets(counts[:short], PADDING) if short else []) + alone


def _padding(counts: list[int], longest: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Which query stands at each place of the padded rows (padding repeats a row's last), and which places are real."""
    gather, real, start = [], [], 0
    for row, count in enumerate(counts):
        gather += [start + min(i, count - 1) for i in range(longest)]
        real += range(row * longest, row * longest + count)
        start += count
    return torch.tensor(gather, device=device), torch.tensor(real, device=device)
