"""Group-relative advantages (M-GRPO, arXiv 2511.13288, Eqs 9-13), the same function for both roles.

The planner's group is the K rollouts of one query; the executor's is all aligned rows of one query, pooled over its
rollouts, each row counted by its multiplicity: the baseline of the batch in which the copies really stand.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shared.errors import InvalidInput

DEAD_BELOW = 1e-6
"""A deviation under this counts as 0: a reward that went through float32 carries noise of 1e-8."""


@dataclass(frozen=True, slots=True)
class GroupBaseline:
    """One group's mean and population deviation (None where it has no row), and one advantage for each row.

    A dead group has no deviation to speak of: its advantages are exactly 0, and none of its rows is trained on.
    """

    mean: float | None
    std: float | None
    dead: bool
    advantages: list[float]


def group_advantages(rewards: Sequence[float], multiplicities: Sequence[float] | None = None) -> GroupBaseline:
    """A = (R - mean) / std over one group, in float64, without an epsilon (Eqs 9-13).

    `multiplicities` (default: all 1) weigh the rows in both statistics; a row of multiplicity 0 was dropped: it
    counts in neither, and its advantage is listed and never used. InvalidInput for a value that is not finite.
    """
    weights = [1.0] * len(rewards) if multiplicities is None else list(multiplicities)
    _check(rewards, weights)
    total = math.fsum(weights)
    if total == 0:
        return GroupBaseline(None, None, True, [0.0] * len(rewards))
    mean = math.fsum(w * r for w, r in zip(weights, rewards, strict=True)) / total
    variance = math.fsum(w * (r - mean) ** 2 for w, r in zip(weights, rewards, strict=True)) / total
    std = math.sqrt(variance)
    if std < DEAD_BELOW:
        return GroupBaseline(mean, std, True, [0.0] * len(rewards))
    return GroupBaseline(mean, std, False, [(r - mean) / std for r in rewards])


def _check(rewards: Sequence[float], weights: Sequence[float]) -> None:
    if len(rewards) != len(weights):
        raise InvalidInput(f"{len(rewards)} rewards, but {len(weights)} multiplicities")
    if not all(map(math.isfinite, rewards)):
        raise InvalidInput("a reward is not a finite number")
    if not all(math.isfinite(w) and w >= 0 for w in weights):
        raise InvalidInput("a multiplicity is negative or not a finite number")
