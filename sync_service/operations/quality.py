"""What the last steps' rows say: whether enough of them are trained on, and whether they are aligned as is meant."""

from collections.abc import Iterator, Mapping, Sequence

from shared.schemas.base import Role
from shared.schemas.run import RunSpec
from sync_service.operations.finding import Finding

COVERAGE = 0.97
"""P(d <= D_max) under which alignment drops too much; the pilot chose D_max for 0.99."""
LOST_SHARE = 0.1
"""The part of rollouts that may be aborted, and of trajectories that may be unscored, before that is said."""
GAP = 0.1
"""Nats: the mean difference of the log-probs of sampler and trainer beyond which the importance ratio means little."""
FEW = 64
"""Rollouts that a coverage must rest on."""

Steps = Sequence[Mapping[str, float]]


def of_rows(spec: RunSpec, statistics: Mapping[Role, Steps], calls: Mapping[int, int]) -> Iterator[Finding]:
    """What is worth saying of the last steps' rows; `calls`: how many rollouts made so many calls."""
    planner, executor = statistics.get("planner", ()), statistics.get("executor", ())
    if (aborted := share(planner, "rollouts_aborted", "rollouts")) > LOST_SHARE:
        text, advice = f"{aborted:.0%} of the rollouts are aborted", "see why the executor or a sampler fails"
        yield Finding("DEGRADED", text, advice)
    if (unscored := share(executor, "trajectories_unscored", "trajectories")) > LOST_SHARE:
        text = f"{unscored:.0%} of the executor's trajectories have no score"
        yield Finding("DEGRADED", text, "see why the judge fails")
    yield from _coverage(spec, calls)
    for role, steps in statistics.items():
        if (gap := mean(steps, "gap_mean")) > GAP:
            text = f"the {role}'s log-probs differ by {gap:.2f} nats between sampler and trainer"
            advice = "use one precision for both, or objective.old = recomputed with a tis_cap"
            yield Finding("DEGRADED", text, advice)


def _coverage(spec: RunSpec, calls: Mapping[int, int]) -> Iterator[Finding]:
    covered = coverage(calls, spec.d_max)
    if spec.alignment == "none" or covered is None or covered >= COVERAGE or sum(calls.values()) < FEW:
        return
    text = f"{covered:.0%} of the rollouts make at most d_max = {spec.d_max} calls; of the others rows are dropped"
    yield Finding("DEGRADED", text, f"raise d_max in the next run: {needed(calls)} calls cover 99%")


def coverage(calls: Mapping[int, int], d_max: int) -> float | None:
    """P(d <= D_max) over rollouts, those without a call included; None where there is none."""
    rollouts = sum(calls.values())
    return sum(count for d, count in calls.items() if d <= d_max) / rollouts if rollouts else None


def needed(calls: Mapping[int, int], wanted: float = 0.99) -> int:
    """The smallest number of calls that at least the share `wanted` of the rollouts stay within."""
    rollouts, seen = sum(calls.values()), 0
    for d in sorted(calls):
        seen += calls[d]
        if seen >= wanted * rollouts:
            return d
    return 0


def share(steps: Steps, part: str, whole: str) -> float:
    """One statistic as a part of another, over all steps; 0 of nothing."""
    total = sum(step.get(whole, 0.0) for step in steps)
    return sum(step.get(part, 0.0) for step in steps) / total if total else 0.0


def mean(steps: Steps, name: str) -> float:
    """The mean over the steps that have it; 0 over none."""
    values = [step[name] for step in steps if name in step]
    return sum(values) / len(values) if values else 0.0
