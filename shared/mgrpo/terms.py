"""The scores of the planner's optional reward terms, each in [0, 1], from what a rollout did.

They are ours; m-grpo.md, section 2, has the published sources. None of them pays for a call: a rollout without one has
nothing that was refused, paid for or repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.schemas.run import Budget


@dataclass(frozen=True, slots=True)
class Used:
    """What one rollout used: calls that the planner wrote, tokens that it sampled, seconds by the clock."""

    calls: int
    tokens: int
    seconds: float


def protocol_score(calls: int, refused: int) -> float:
    """The share of the calls that could be run: `refused` ones name no tool, or do not fit its parameters."""
    return 1.0 - refused / calls if calls else 1.0


def efficiency_score(used: Used, budget: Budget) -> float:
    """1 less what was used, as a share of the budget; with several budgets the mean of the shares, each at most 1."""
    limits = budget.model_dump(exclude_none=True)
    return 1.0 - sum(min(1.0, getattr(used, name) / limit) for name, limit in limits.items()) / len(limits)


def diversity_score(delegations: Sequence[str]) -> float:
    """The share of the delegations that repeat none before them, but for case and white space."""
    distinct = {" ".join(text.casefold().split()) for text in delegations}
    return len(distinct) / len(delegations) if delegations else 1.0
