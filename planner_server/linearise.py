"""The tree of a rollout as rows: the planner's trajectory, then those of the delegations that the same policy answered.

Each weighs 1 / (rows of its rollout), so a rollout has the mass of one row in the loss whatever it delegated, and all
have the advantage of their rollout (WideSeek's training; docs/decisions/0007). A pair's rollout is one row here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Row:
    """A trajectory, the rollout whose advantage it has, and its weight in the loss, in (0, 1]."""

    trajectory: str
    rollout: str
    weight: float


def linearise(trees: Mapping[str, Sequence[str]]) -> list[Row]:
    """The rows of one group; `trees` maps the planner's trajectory of each rollout to those below it.

    InvalidInput for a trajectory that stands twice: it would be trained on twice.
    """
    rows = [
        Row(trajectory, rollout, 1 / (1 + len(below)))
        for rollout, below in trees.items()
        for trajectory in (rollout, *below)
    ]
    if len({row.trajectory for row in rows}) < len(rows):
        raise InvalidInput("a trajectory stands twice in the rollouts of one group")
    return rows
