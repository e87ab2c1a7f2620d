"""Keys and values of the rows in flight: one row of a preallocated block for each, without gaps between them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from shared.errors import UserError

STEP = 64
"""Capacity is a multiple of it."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What one token's keys and values are: in each of `layers`, `heads` vectors of `dim` for either."""

    layers: int
    heads: int
    dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def token_bytes(self) -> int:
        """Of one token, in all layers."""
        return 2 * self.layers * self.heads * self.dim * self.dtype.itemsize


class KeyValueRows:
    """The block, [2 x layers, rows, heads, capacity, dim]: what a head attends to lies side by side.

    What lies beyond a row's tokens is what other rows left there: finite, and masked by who reads it.
    """

    def __init__(self, shape: CacheShape) -> None:
        self.shape = shape
        self.rows = self.capacity = 0
        self._block = self._empty(0, 0)

    @property
    def bytes(self) -> int:
        """Of the whole block."""
        return self.rows * self.capacity * self.shape.token_bytes

    def reserve(self, rows: int, tokens: int, *, used: int, ample: int) -> None:
        """Have at least `rows` of `tokens` each; the first `used` rows keep what they hold, if it is within `tokens`.

        A block that must change gets `ample` rows, and the capacity that is needed now: one long row does not widen it
        for ever.
        """
        if rows <= self.rows and tokens <= self.capacity:
            return
        capacity = _rounded(tokens)
        block = self._empty(ample, capacity)
        kept = min(capacity, self.capacity)
        block[:, :used, :, :kept] = self._block[:, :used, :, :kept]
        self._block, self.rows, self.capacity = block, ample, capacity

    def shrink(self, rows: int) -> None:
        """Give up all but the first `rows`."""
        self._block = self._block[:, :rows].clone(memory_format=torch.contiguous_format)
        self.rows = rows

    def width(self, tokens: int) -> int:
        """Bytes of one row for that many tokens."""
        return _rounded(tokens) * self.shape.token_bytes

    def lines(self, places: Tensor) -> Tensor:
        """The lines of tokens at `places` (row x capacity + position), head by head: [heads x tokens]."""
        rows, positions = places // self.capacity, places % self.capacity
        heads = torch.arange(self.shape.heads, device=places.device)[:, None]
        return ((rows * self.shape.heads + heads) * self.capacity + positions).flatten()

    def write(self, layer: int, lines: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's keys and values [heads, tokens, dim] at `lines`; returns all of the layer's.

        Those are [rows, heads, capacity, dim].
        """
        both = self._block[2 * layer], self._block[2 * layer + 1]
        for block, new in zip(both, (keys, values), strict=True):
            block.view(-1, self.shape.dim).index_copy_(0, lines, new.reshape(-1, self.shape.dim))
        return both

    def take(self, row: int, tokens: int) -> Tensor:
        """A copy of the row's first `tokens`: [2 x layers, heads, tokens, dim]."""
        return self._block[:, row, :, :tokens].clone()

    def put(self, row: int, kept: Tensor, tokens: int) -> None:
        """Begin the row with the first `tokens` of what `take` returned."""
        self._block[:, row, :, :tokens] = kept[:, :, :tokens]

    def move(self, source: int, target: int, tokens: int) -> None:
        """Copy a row's first `tokens` onto another row."""
        self._block[:, target, :, :tokens] = self._block[:, source, :, :tokens]

    def _empty(self, rows: int, capacity: int) -> Tensor:
        shape = self.shape
        size = (2 * shape.layers, rows, shape.heads, capacity, shape.dim)
        return torch.zeros(size, dtype=shape.dtype, device=shape.device)


def cache_shape(model: PreTrainedModel) -> CacheShape:
    """The shape of a model's keys and values, from a look at them; UserError where they differ from layer to layer."""
    with torch.inference_mode():
        cache = model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device), use_cache=True).cache
    layers = cache.layers if isinstance(cache, DynamicCache) else []
    shapes = {states.shape for layer in layers for states in (layer.keys, layer.values)}
    if len(shapes) != 1:
        raise UserError(f"{type(model).__name__}: its layers' keys and values are not all of one shape")
    ((_, heads, _, dim),) = shapes
    return CacheShape(len(layers), heads, dim, layers[0].keys.dtype, model.device)


def _rounded(tokens: int) -> int:
    return -(-tokens // STEP) * STEP
