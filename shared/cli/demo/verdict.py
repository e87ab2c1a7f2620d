"""Does it learn? A verdict on the last steps' groups, from the statistics that the planner's trainer acked."""

from collections.abc import Sequence
from typing import Literal

from shared.schemas.stream import StepStatistics

WINDOW = 10
DEAD_SHARE = 0.9
SOLVED_AT = 0.5

Verdict = Literal["LEARNING", "NOT LEARNING", "SATURATED"]


def verdict(planner_steps: Sequence[StepStatistics]) -> Verdict:
    """NOT LEARNING: over 90% of the groups of ten steps in a row are dead, and their mean r_correct is under 0.5.

    Dead groups with a higher r_correct are solved ones: SATURATED.
    """
    window = [step.statistics for step in planner_steps[-WINDOW:]]
    groups = sum(s.get("groups", 0.0) for s in window)
    if len(window) < WINDOW or not groups:
        return "LEARNING"
    dead = sum(s.get("groups_dead", 0.0) for s in window)
    if dead <= DEAD_SHARE * groups:
        return "LEARNING"
    correct = sum(s.get("correct_mean", 0.0) * s.get("groups", 0.0) for s in window) / groups
    return "NOT LEARNING" if correct < SOLVED_AT else "SATURATED"
