"""Which steps were live. A step counts when every role that trains has acked it; it is live where each of them trained.

A role trains on a step if one of its groups, at least, has rewards that differ; else the step is dead for that role.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.cli.demo_llm.settings import LlmSection
from shared.schemas import Role
from shared.schemas.stream import StepStatistics

TRAINED = "trained"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`live` steps, and the `dead` ones with the roles that had no live group."""

    live: tuple[int, ...]
    dead: dict[int, tuple[Role, ...]]

    def reached(self, wanted: LlmSection) -> bool:
        """As many live steps as were wanted."""
        return len(self.live) >= wanted.live_steps

    def given_up(self, wanted: LlmSection) -> bool:
        """More dead steps than may be made up for."""
        return not self.reached(wanted) and len(self.dead) > wanted.retries

    def verdict(self, wanted: LlmSection) -> str:
        """One line."""
        head = "CO-TRAINED" if self.reached(wanted) else "NOT LEARNING"
        line = f"{head}: {len(self.live)} live steps, {wanted.live_steps} wanted; {len(self.dead)} dead"
        told = [f"step {step} had no live group of the {' and the '.join(roles)}" for step, roles in self.dead.items()]
        return "; ".join([line, *told])


def judge(steps: Mapping[Role, Sequence[StepStatistics]]) -> Outcome:
    """The outcome of the steps that all of these roles have acked."""
    by_step = {role: {step.step: step.outcome == TRAINED for step in of_role} for role, of_role in steps.items()}
    acked = sorted(set.intersection(*[set(of_role) for of_role in by_step.values()]))
    idle = {step: tuple(role for role in by_step if not by_step[role][step]) for step in acked}
    return Outcome(tuple(step for step in acked if not idle[step]), {s: roles for s, roles in idle.items() if roles})
