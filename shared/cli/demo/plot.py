"""`curves.png`: both roles' rewards and the accuracies on one step axis."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from shared.cli.demo.grid import AFTER, BEFORE, Grid
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.settings import Settings, trained

COLOURS = {"planner": "#2563eb", "executor": "#d97706"}


def plot_curves(settings: Settings, metrics: Metrics, grid: Grid, path: Path) -> None:
    """Mean reward and its deviation (within 0 and 1), smoothed; validation accuracy; test accuracy at both ends."""
    figure, (rewards, accuracies) = plt.subplots(2, 1, figsize=(8, 7), sharex=True, layout="constrained")
    for role in trained(settings):
        steps = [s for s in metrics.steps(role) if "reward_mean" in s.statistics]
        x = [s.step for s in steps]
        mean = smooth([s.statistics["reward_mean"] for s in steps])
        spread = smooth([s.statistics.get("reward_deviation", 0.0) for s in steps])
        rewards.plot(x, mean, color=COLOURS[role], label=f"{role}: mean and deviation, smoothed")
        low = [max(0.0, m - d) for m, d in zip(mean, spread, strict=True)]
        high = [min(1.0, m + d) for m, d in zip(mean, spread, strict=True)]
        rewards.fill_between(x, low, high, color=COLOURS[role], alpha=0.12, linewidth=0)
    rewards.set_ylabel("reward of the sampled rollouts")
    rewards.set_ylim(-0.05, 1.05)
    rewards.legend(loc="lower right")
    validations = sorted(metrics.validations.items())
    accuracies.plot(
        *zip(*validations, strict=True), "o-", color="#059669", label="validation, T = 1"
    ) if validations else None
    ends = [(0, BEFORE), (settings.spec().steps, AFTER)]
    for mode, marker in (("sampled", "s"), ("greedy", "^")):
        points = [(x, grid.accuracy(mode, when, when)) for x, when in ends]
        error = [[e.mean - e.low for _, e in points], [e.high - e.mean for _, e in points]]
        label = f"test, {'T = 1' if mode == 'sampled' else 'greedy'} (95%)"
        accuracies.errorbar(
            [x for x, _ in points], [e.mean for _, e in points], error, fmt=marker, capsize=4, label=label
        )
    accuracies.set_ylabel("accuracy")
    accuracies.set_xlabel("step")
    accuracies.set_ylim(-0.05, 1.05)
    accuracies.legend(loc="lower right")
    for axes in (rewards, accuracies):
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def smooth(values: list[float], keep: float = 0.8) -> list[float]:
    """An exponential moving average with its bias removed."""
    result, total, weight = [], 0.0, 0.0
    for value in values:
        total, weight = keep * total + (1 - keep) * value, keep * weight + (1 - keep)
        result.append(total / weight)
    return result
