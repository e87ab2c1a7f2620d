"""Which rows are too old to train on (the run's `staleness`; m-grpo: before alignment, before any baseline)."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.errors import InvalidInput
from shared.schemas.base import PolicyVersion


@dataclass(frozen=True, slots=True)
class Staleness:
    """Every row's staleness in optimiser steps, and the ids over the bound, which leave with the reason `stale`."""

    by_row: dict[str, int]
    stale: frozenset[str]

    @property
    def kept(self) -> list[str]:
        """The ids within the bound, in the order in which they were given."""
        return [row for row in self.by_row if row not in self.stale]


def row_staleness(updates: int, oldest: PolicyVersion) -> int:
    """Optimiser steps between the version of a row's oldest token and the trainer's `updates` at the batch's start.

    Counted in optimiser steps, so a skipped step ages nothing. At least 0: a resume may have taken the trainer back
    behind the version that sampled the row.
    """
    return max(0, updates - oldest.updates)


def split_stale(oldest: Mapping[str, PolicyVersion], *, updates: int, bound: int) -> Staleness:
    """The staleness of each row (id -> version of its oldest token); a row over `bound` is stale."""
    if bound < 0:
        raise InvalidInput(f"the staleness bound is at least 0, not {bound}")
    by_row = {row: row_staleness(updates, version) for row, version in oldest.items()}
    return Staleness(by_row, frozenset(row for row, value in by_row.items() if value > bound))
