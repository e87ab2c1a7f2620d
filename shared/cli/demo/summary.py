"""`summary.json`: every figure of the closing table, computed from this run's own evaluations and acks."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from statistics import fmean
from typing import Any

from shared.cli.demo.grid import AFTER, BEFORE, MODES, Grid
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.settings import Settings, trained
from shared.learning import learning
from shared.mgrpo.formula import formulas
from shared.schemas.run import RunStatus
from shared.schemas.stream import StepStatistics

EDGE = 10


def summarise(settings: Settings, metrics: Metrics, grid: Grid, status: RunStatus, seconds: dict[str, float]) -> dict:
    """A JSON-ready tree with keys in whole words."""
    rise = grid.rise("sampled")
    judged = learning([step.statistics for step in metrics.steps("planner")])
    return {
        "run": status.run,
        "state": status.state,
        "verdict": "SATURATED" if judged == "SATURATED" else _verdict(rise.low),
        "accuracy": {mode: _cells(grid, mode) for mode in MODES},
        "validation_accuracy": {str(step): value for step, value in sorted(metrics.validations.items())},
        "reward_formulas": formulas(settings.spec()),
        "reward": {role: _edges(metrics.steps(role), "reward_mean") for role in trained(settings)},
        "steps": {role: Counter(s.outcome for s in metrics.steps(role)) for role in trained(settings)},
        "groups": status.groups,
        "rollouts": status.rollouts,
        "trajectories": status.trajectories,
        "calls_per_rollout": _calls(metrics),
        "rows": {
            key: _total(metrics.steps("executor"), f"rows_{key}") for key in ("distinct", "copied", "dropped", "masked")
        },
        "dead_groups": {role: _share(metrics.steps(role)) for role in trained(settings)},
        "staleness": {role: _staleness(metrics.steps(role)) for role in trained(settings)},
        "sampler_trainer_gap": {role: _edges(metrics.steps(role), "gap_mean") for role in trained(settings)},
        "bytes_per_rollout": round(status.bytes_received / max(1, sum(status.rollouts.values())), 1),
        "seconds": {stage: round(value, 1) for stage, value in seconds.items()},
    }


def rose(summary: dict) -> bool:
    """Whether accuracy rose beyond its interval."""
    return summary["accuracy"]["sampled"]["paired_difference"]["interval"][0] > 0


def _verdict(low: float) -> str:
    return "LEARNED" if low > 0 else "NO RISE BEYOND ITS INTERVAL"


def _cells(grid: Grid, mode: str) -> dict[str, Any]:
    rise = grid.rise(mode)
    cells = {
        f"planner_{p}_executor_{e}": {"accuracy": (a := grid.accuracy(mode, p, e)).mean, "interval": [a.low, a.high]}
        for p in (BEFORE, AFTER)
        for e in (BEFORE, AFTER)
    }
    kinds = {when: grid.cells[mode, when, when].by_kind for when in (BEFORE, AFTER)}
    return {**cells, "paired_difference": {"mean": rise.mean, "interval": [rise.low, rise.high]}, "by_kind": kinds}


def _edges(steps: list[StepStatistics], key: str) -> dict[str, float | None]:
    values = [s.statistics[key] for s in steps if key in s.statistics]
    return {"first_steps": fmean(values[:EDGE]), "last_steps": fmean(values[-EDGE:])} if values else {}


def _total(steps: Iterable[StepStatistics], key: str) -> int:
    return round(sum(s.statistics.get(key, 0.0) for s in steps))


def _share(steps: list[StepStatistics]) -> dict[str, float]:
    dead, groups = _total(steps, "groups_dead"), _total(steps, "groups")
    return {"dead": dead, "groups": groups, "share": round(dead / groups, 4) if groups else 0.0}


def _staleness(steps: list[StepStatistics]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for step in steps:
        counts.update(step.histograms.get("staleness", {}))
    rows = sum(counts.values())
    mean = sum(int(value) * count for value, count in counts.items()) / rows if rows else 0.0
    return {"mean": round(mean, 4), "most": max(map(int, counts), default=0), "histogram": dict(sorted(counts.items()))}


def _calls(metrics: Metrics) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for step in metrics.steps("executor"):
        counts.update(step.histograms.get("calls_per_rollout", {}))
    rollouts = sum(counts.values())
    mean = sum(int(calls) * count for calls, count in counts.items()) / rollouts if rollouts else 0.0
    return {"mean": round(mean, 3), "histogram": dict(sorted(counts.items(), key=lambda item: int(item[0])))}


def plain(tree: Any) -> Any:
    """Counters and dataclasses as plain dictionaries."""
    if hasattr(tree, "__dataclass_fields__"):
        return asdict(tree)
    return {key: plain(value) for key, value in tree.items()} if isinstance(tree, dict) else tree
