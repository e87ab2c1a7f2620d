"""Rows of like length go together: on a small model padding costs more than one more call."""

from collections.abc import Sequence


def buckets(lengths: Sequence[int], padding: int) -> list[slice]:
    """Cut ascending `lengths` into runs, longest first in the making, each with at most `padding` tokens to fill up."""
    parts, end, waste = [], len(lengths), 0
    for start in range(len(lengths) - 1, -1, -1):
        waste += lengths[end - 1] - lengths[start]
        if waste > padding:
            parts.append(slice(start + 1, end))
            end, waste = start + 1, 0
    return [slice(0, end), *reversed(parts)]
