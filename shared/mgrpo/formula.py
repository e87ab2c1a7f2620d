"""The reward formulas that are in force in a run, as one line of text each."""

from shared.schemas.run import Budget, ExecutorReward, PlannerReward, RunSpec


def formulas(spec: RunSpec) -> dict[str, str]:
    """The formula of each role, by its name."""
    return {"planner": planner_formula(spec.planner_reward), "executor": executor_formula(spec.executor_reward)}


def planner_formula(reward: PlannerReward) -> str:
    """R_M with the optional terms that are on, and what their scores are."""
    sum_ = _sum(
        (reward.format, ""),
        (reward.correct, "r_correct"),
        (reward.protocol, "r_protocol"),
        (reward.efficiency, "r_correct*r_efficiency"),
        (reward.diversity, "r_correct*r_diversity"),
    )
    scores = {
        "protocol": "share of calls that name a tool and fit its parameters",
        "efficiency": _efficiency(reward.budget) if reward.budget else "",
        "diversity": "share of answered delegations that repeat none",
    }
    return "; ".join([f"R_M = r_format*({sum_})", *(f"r_{term} = {scores[term]}" for term in reward.terms)])


def executor_formula(reward: ExecutorReward) -> str:
    """R_S."""
    sum_ = _sum((reward.format, ""), (reward.correct_main, "r_correct_main"), (reward.expert, "r_expert"))
    return f"R_S = r_format*({sum_})"


def _sum(*addends: tuple[float, str]) -> str:
    return " + ".join(f"{weight:.9g}*{of}" if of else f"{weight:.9g}" for weight, of in addends if weight)


def _efficiency(budget: Budget) -> str:
    limits = budget.model_dump(exclude_none=True)
    shares = [f"min(1, {name}/{limit:.9g})" for name, limit in limits.items()]
    return f"1 - {shares[0]}" if len(shares) == 1 else f"1 - ({' + '.join(shares)})/{len(shares)}"
