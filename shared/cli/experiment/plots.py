"""`curves.png`: each arm over its steps, with bands over seeds; `differences.png`: the paired differences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from shared.cli.demo.plot import smooth
from shared.cli.experiment.result import JobResult
from shared.cli.experiment.statistics import t_interval
from shared.schemas.base import Role

Curve = Mapping[int, float]
COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#475569", "#65a30d", "#0891b2")


def plot_curves(results: Sequence[JobResult], path: Path) -> None:
    """Validation accuracy, both rewards, dead groups and calls by step: means over seeds, 95% t bands from two on."""
    panels = {
        "validation accuracy, T = 1": lambda r: r.validation,
        "planner's reward, smoothed": lambda r: smoothed(_curve(r, "planner", "reward_mean")),
        "executor's reward, smoothed": lambda r: smoothed(_curve(r, "executor", "reward_mean")),
        "planner's dead groups, share, smoothed": lambda r: smoothed(_share(r)),
        "calls per rollout while training, smoothed": lambda r: smoothed(_curve(r, "planner", "calls_mean")),
        "sampler-trainer gap of the planner, smoothed": lambda r: smoothed(_curve(r, "planner", "gap_mean")),
    }
    figure, axes = plt.subplots(3, 2, figsize=(12, 11), sharex=True, layout="constrained")
    for panel, (title, curve_of) in zip(axes.flat, panels.items(), strict=True):
        for colour, (arm, of_arm) in zip(COLOURS, _by_arm(results).items(), strict=False):
            _draw(panel, arm, colour, [curve_of(result) for result in of_arm])
        panel.set_title(title, fontsize=10)
        panel.grid(alpha=0.25)
    for panel in axes[-1]:
        panel.set_xlabel("step")
    axes[0][0].set_ylim(-0.02, 1.02)
    axes[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot_differences(comparisons: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Each comparison's mean difference in test accuracy with its interval, and the difference of every seed."""
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.5 * len(comparisons)), layout="constrained")
    for row, compared in enumerate(comparisons.values()):
        axes.plot(list(compared["by_seed"].values()), [row] * len(compared["by_seed"]), ".", color="#94a3b8")
        if compared["interval"]:
            axes.plot(compared["interval"], [row, row], "-", color="#2563eb", linewidth=2)
        axes.plot([compared["mean"]], [row], "o", color="#2563eb")
    axes.axvline(0, color="#475569", linewidth=1)
    axes.set_yticks(range(len(comparisons)), list(comparisons))
    axes.invert_yaxis()
    axes.set_xlabel("difference in test accuracy, T = 1; 95% t interval over seeds, and each seed")
    axes.grid(axis="x", alpha=0.25)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _by_arm(results: Sequence[JobResult]) -> dict[str, list[JobResult]]:
    arms: dict[str, list[JobResult]] = {}
    for result in results:
        arms.setdefault(result.arm, []).append(result)
    return arms


def _draw(axes: Axes, arm: str, colour: str, curves: Sequence[Curve]) -> None:
    """The mean over seeds at each step that all of them have; the band from two seeds on."""
    shared = sorted(set.intersection(*[set(curve) for curve in curves]))
    points = [(step, interval) for step in shared if (interval := t_interval(curve[step] for curve in curves))]
    axes.plot([step for step, _ in points], [i.mean for _, i in points], color=colour, label=f"{arm} ({len(curves)})")
    bands = [(step, i.low, i.high) for step, i in points if i.low is not None and i.high is not None]
    if bands:
        steps, low, high = zip(*bands, strict=True)
        axes.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)


def _curve(result: JobResult, role: Role, key: str) -> Curve:
    return result.curves.get(role, {}).get(key, {})


def _share(result: JobResult) -> Curve:
    dead, groups = _curve(result, "planner", "groups_dead"), _curve(result, "planner", "groups")
    return {step: count / groups[step] for step, count in dead.items() if groups.get(step)}


def smoothed(curve: Curve) -> Curve:
    """An exponential moving average over the steps in order."""
    steps = sorted(curve)
    return dict(zip(steps, smooth([curve[step] for step in steps]), strict=True))
