"""Does it learn? A judgement on the last steps' groups, from the statistics that the planner's trainer acked."""

from collections.abc import Mapping, Sequence
from typing import Literal

WINDOW = 10
DEAD_SHARE = 0.9
SOLVED_AT = 0.5

Learning = Literal["LEARNING", "NOT LEARNING", "SATURATED"]


def learning(planner_steps: Sequence[Mapping[str, float]]) -> Learning:
    """NOT LEARNING: over 90% of the groups of ten steps in a row are dead, and their mean r_correct is under 0.5.

    Dead groups with a higher r_correct are solved ones: SATURATED. `planner_steps`: each step's statistics, in order.
    """
    window = planner_steps[-WINDOW:]
    groups = sum(s.get("groups", 0.0) for s in window)
    if len(window) < WINDOW or not groups:
        return "LEARNING"
    dead = sum(s.get("groups_dead", 0.0) for s in window)
    if dead <= DEAD_SHARE * groups:
        return "LEARNING"
    correct = sum(s.get("correct_mean", 0.0) * s.get("groups", 0.0) for s in window) / groups
    return "NOT LEARNING" if correct < SOLVED_AT else "SATURATED"
