"""The figures of one job, each a number: what arms are compared by."""

from collections.abc import Callable, Mapping
from statistics import fmean

from shared.cli.experiment.result import Evaluations, JobResult
from shared.schemas.base import Role

EDGE = 10
"""Steps at an end of a curve whose mean stands for that end."""
Figure = Callable[[JobResult], float | None]


def evaluated(evaluations: Evaluations) -> dict[str, float]:
    """What the test tasks say of one pair of checkpoints; calls are of the sampled rollouts."""
    sampled = evaluations.sampled
    by_kind = {f"calls, {kind}": value for kind, value in sampled.calls_by_kind.items()}
    return {
        "accuracy": fmean(sampled.correct),
        "greedy accuracy": fmean(evaluations.greedy.correct),
        "calls": fmean(sampled.calls),
        **by_kind,
    }


def trained(result: JobResult) -> dict[str, float]:
    """What the training was like; a figure of a role that did not train is not there."""
    found = {f"sampled tokens, {role}": float(count) for role, count in result.tokens.items()}
    found["sampled tokens"] = float(sum(result.tokens.values()))
    for role, curves in result.curves.items():
        found |= _of_role(role, curves)
    found["trained tokens"] = sum(found.get(f"trained tokens, {role}", 0.0) for role in result.curves)
    return found


def _of_role(role: Role, curves: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    groups = sum(curves["groups"].values())
    found = {
        f"trained tokens, {role}": sum(curves["trained_tokens"].values()),
        f"dead groups, {role}": sum(curves["groups_dead"].values()) / groups if groups else 0.0,
    }
    for key, name in (
        ("reward_variance_within", "reward variance within rollouts"),
        ("reward_variance_between", "reward variance between rollouts"),
        ("gap_mean", "sampler-trainer gap"),
    ):
        if values := curves[key].values():
            found[f"{name}, {role}"] = fmean(values)
    if calls := [curves["calls_mean"][step] for step in sorted(curves.get("calls_mean", {}))]:
        found["calls while training, first steps"] = fmean(calls[:EDGE])
        found["calls while training, last steps"] = fmean(calls[-EDGE:])
    return found
