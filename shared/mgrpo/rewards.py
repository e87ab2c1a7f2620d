"""The rewards of both roles (M-GRPO, arXiv 2511.13288, Eqs 4-5). Each is gated by its own agent's format only."""

import math
from typing import Protocol

from shared.errors import InvalidInput
from shared.schemas.run import ExecutorReward, PlannerReward


class Terms(Protocol):
    """What has the scores of the optional terms; those that are on must not be None."""

    @property
    def r_protocol(self) -> float | None: ...
    @property
    def r_efficiency(self) -> float | None: ...
    @property
    def r_diversity(self) -> float | None: ...


def planner_reward(r_format: int, r_correct: float, coefficients: PlannerReward, terms: Terms | None = None) -> float:
    """R_M = a1 * r_format + a2 * r_correct, and 0 where the planner's format is invalid (Eq. 4).

    The optional terms that are on come on top (ours; m-grpo.md, section 2): protocol compliance for any answer,
    efficiency and diversity in the measure of `r_correct`, so that a wrong answer earns nothing by being cheap.
    `r_format` is 0 or 1, `r_correct` and the scores in [0, 1]; InvalidInput for anything else.
    """
    _binary("r_format", r_format)
    _unit("r_correct", r_correct)
    reward = coefficients.format + coefficients.correct * r_correct
    for term in coefficients.terms:
        score = getattr(terms, f"r_{term}", None)
        if score is None:
            raise InvalidInput(f"r_{term} is missing for a run whose reward has the term {term}")
        _unit(f"r_{term}", score)
        reward += getattr(coefficients, term) * score * (1.0 if term == "protocol" else r_correct)
    return reward if r_format else 0.0


def executor_reward(
    r_format: int, r_correct_main: float, r_expert: float | None, coefficients: ExecutorReward
) -> float:
    """R_S = b1 * r_format + b2 * r_correct_main + b3 * r_expert, and 0 where the executor's format is invalid (Eq. 5).

    `r_correct_main` is `correct_main` of the rollout that made the call, the same for each of its invocations.
    `r_expert` may be None only where `r_format` is 0, since nobody is asked to judge an invalid invocation.
    """
    _binary("r_format", r_format)
    _unit("r_correct_main", r_correct_main)
    if r_expert is not None:
        _unit("r_expert", r_expert)
    if not r_format:
        return 0.0
    if r_expert is None:
        raise InvalidInput("r_expert is missing for an invocation whose format is valid")
    return coefficients.format + coefficients.correct_main * r_correct_main + coefficients.expert * r_expert


def correct_main(r_format: int, r_correct: float) -> float:
    """The planner's correctness as its executor shares it: 0 where the planner's own format is invalid."""
    _binary("r_format", r_format)
    _unit("r_correct", r_correct)
    return r_format * r_correct


def _binary(name: str, value: int) -> None:
    if value not in (0, 1):
        raise InvalidInput(f"{name} is 0 or 1, not {value}")


def _unit(name: str, value: float) -> None:
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise InvalidInput(f"{name} is in [0, 1], not {value}")
