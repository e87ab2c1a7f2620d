"""`summary.json`: of each arm seeds, mean and interval; of each comparison the paired difference and its interval."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from shared.cli.demo.intervals import accuracy
from shared.cli.experiment.definition import UNTRAINED, Comparison
from shared.cli.experiment.experiment import Experiment
from shared.cli.experiment.figures import evaluated, trained
from shared.cli.experiment.result import JobResult
from shared.cli.experiment.statistics import Interval, paired, t_interval

COMPARED = ("accuracy", "greedy accuracy", "calls", "sampled tokens", "trained tokens")
Figures = dict[str, dict[int, dict[str, float]]]
"""By arm, then by seed, the figures by name."""


def figures_by_arm(results: Sequence[JobResult]) -> Figures:
    """Every arm's, and those of `untrained`: at step 0, the mean over the jobs of one seed.

    These share their models and their tasks. Teams that start from models of their own are `untrained-<team>`.
    """
    found: Figures = defaultdict(dict)
    at_start: dict[str, dict[int, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        found[result.arm][result.seed] = evaluated(result.after) | trained(result)
        at_start[untrained_of(result.team)][result.seed].append(evaluated(result.before))
    for name, by_seed in at_start.items():
        found[name] = {seed: _mean_of(several) for seed, several in by_seed.items()}
    return dict(found)


def untrained_of(team: str) -> str:
    """The name of the arm that is a team's evaluation at step 0."""
    return UNTRAINED if team == "pair" else f"{UNTRAINED}-{team}"


def summarise(experiment: Experiment, failures: dict[str, str]) -> dict[str, Any]:
    """All that is in the summary, of the jobs in the folder that are done."""
    results = experiment.results()
    sources = Counter((result.commit, result.machine) for result in results)
    return {
        "setting": experiment.setting,
        "command": experiment.command,
        "steps": experiment.jobs[0].settings.spec().steps,
        "sources": [{"commit": c, "machine": m, "jobs": jobs} for (c, m), jobs in sources.items()],
        "unfinished": [job.name for job in experiment.jobs if job.state != "done"],
        "failures": failures,
        **compare(results, experiment.definition.comparisons),
    }


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """`summary.json`, whole or as it was."""
    beside = folder / "summary.json.new"
    beside.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
    beside.replace(folder / "summary.json")


def compare(results: Sequence[JobResult], comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The arms and the comparisons, ready for JSON; what cannot be told yet is null or left out."""
    figures = figures_by_arm(results)
    return {
        "arms": {name: _arm(figures[name]) | _tasks(name, results) for name in figures},
        "comparisons": {
            str(c): _comparison(figures[c.of], figures[c.less])
            for c in comparisons
            if c.of in figures and c.less in figures and figures[c.of].keys() & figures[c.less].keys()
        },
    }


def _arm(by_seed: dict[int, dict[str, float]]) -> dict[str, Any]:
    """`mean` and `interval` are of the final test accuracy at temperature 1."""
    names = dict.fromkeys(name for figures in by_seed.values() for name in figures)
    all_of = {name: t_interval(f[name] for f in by_seed.values() if name in f) for name in names}
    return {
        "seeds": sorted(by_seed),
        **plain(all_of["accuracy"]),
        "by_seed": {str(seed): by_seed[seed]["accuracy"] for seed in sorted(by_seed)},
        "figures": {name: plain(interval) for name, interval in all_of.items()},
    }


def _tasks(name: str, results: Sequence[JobResult]) -> dict[str, Any]:
    """Each seed's accuracy with Wilson's interval over its tasks: how well that one job is measured."""
    of_tasks = {r.seed: accuracy(r.after.sampled.correct) for r in results if r.arm == name}
    return {"interval_over_tasks": {str(seed): [a.low, a.high] for seed, a in sorted(of_tasks.items())}}


def _comparison(of: dict[int, dict[str, float]], less: dict[int, dict[str, float]]) -> dict[str, Any]:
    """`mean` and `interval` are of the paired difference in accuracy; other figures are below `figures`."""
    kinds = [name for name in next(iter(of.values())) if name.startswith("calls, ")]
    told = {name: _paired(name, of, less) for name in (*COMPARED, *kinds)}
    difference = told["accuracy"]
    assert difference is not None
    return {
        "seeds": sorted(of.keys() & less.keys()),
        **plain(difference),
        "by_seed": {str(s): of[s]["accuracy"] - less[s]["accuracy"] for s in sorted(of.keys() & less.keys())},
        "beyond_interval": difference.excludes_zero,
        "figures": {name: plain(interval) for name, interval in told.items() if interval is not None},
    }


def _paired(name: str, of: dict[int, dict[str, float]], less: dict[int, dict[str, float]]) -> Interval | None:
    return paired(*({seed: f[name] for seed, f in arm.items() if name in f} for arm in (of, less)))


def plain(interval: Interval | None) -> dict[str, Any]:
    """`mean`, and `interval`: [low, high], or null from fewer than two seeds."""
    if interval is None:
        return {"mean": None, "interval": None}
    return {"mean": interval.mean, "interval": None if interval.low is None else [interval.low, interval.high]}


def _mean_of(several: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: fmean(figures[name] for figures in several if name in figures) for name in several[0]}
