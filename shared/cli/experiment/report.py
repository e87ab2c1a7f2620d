"""The report of an experiment: `README.md` and `tasks.html` of the same tables, the plots; a folder to publish in."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from shared.cli.experiment.plan import RESULT, Job
from shared.cli.experiment.plots import plot_curves, plot_differences
from shared.cli.experiment.result import JobResult
from shared.errors import UserError

PAGES = ("README.md", "tasks.html")
PLOTS = ("curves.png", "differences.png")
COLUMNS = {
    "greedy accuracy": "greedy",
    "calls": "calls",
    "dead groups, planner": "dead groups, planner",
    "dead groups, executor": "dead groups, executor",
    "sampler-trainer gap, planner": "gap, planner",
    "sampler-trainer gap, executor": "gap, executor",
    "sampled tokens": "sampled tokens",
    "trained tokens": "trained tokens",
}
"""Figures of an arm that its table has, with the heads of their columns."""
SPREAD = {
    f"reward variance {where} rollouts, {role}": f"{role}, {where}"
    for role in ("planner", "executor")
    for where in ("within", "between")
}


def write_report(
    folder: Path, summary: Mapping[str, Any], results: Sequence[JobResult], about: Mapping[str, str]
) -> None:
    """Write pages and plots into `folder`. Texts of models are hostile: the page escapes them, and has no script."""
    plot_curves(results, folder / PLOTS[0])
    plot_differences(summary["comparisons"], folder / PLOTS[1])
    templates = Environment(
        loader=PackageLoader("shared.cli.experiment"),
        autoescape=lambda name: name != "README.md.j2",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"figure": figure, "estimate": estimate}
    context = {"summary": summary, "about": about, "columns": COLUMNS, "spread": SPREAD, "shown": shown_tasks(results)}
    for page in PAGES:
        (folder / page).write_text(templates.get_template(f"{page}.j2").render(context))


def shown_tasks(results: Sequence[JobResult]) -> list[dict[str, Any]]:
    """Of each arm's first seed the shown test tasks, before and after, side by side."""
    first: dict[str, JobResult] = {}
    for result in results:
        first.setdefault(result.arm, result)
    return [
        {
            "arm": result.arm,
            "seed": result.seed,
            "tasks": list(zip(result.before.sampled.transcripts, result.after.sampled.transcripts, strict=True)),
        }
        for result in first.values()
    ]


def estimate(told: Mapping[str, Any] | None, sign: bool = False) -> str:
    """`0.940 [0.921, 0.959]`; without an interval the mean alone; a dash for what there is not."""
    if told is None or told["mean"] is None:
        return "-"
    if told["interval"] is None:
        return figure(told["mean"], sign)
    low, high = (figure(value, sign) for value in told["interval"])
    return f"{figure(told['mean'], sign)} [{low}, {high}]"


def figure(value: float, sign: bool = False) -> str:
    """Three decimals; tokens, which are many, whole and with commas."""
    if abs(value) >= 100:
        return f"{value:+,.0f}" if sign else f"{value:,.0f}"
    return f"{value:+.3f}" if sign else f"{value:.3f}"


def publish(folder: Path, to: Path, jobs: Sequence[Job]) -> None:
    """Copy summary, plots, pages, and each finished job's data to `to`; nothing else in it is touched."""
    try:
        (to / "data").mkdir(parents=True, exist_ok=True)
        for name in ("summary.json", *PLOTS, *PAGES):
            shutil.copyfile(folder / name, to / name)
        for job in jobs:
            if job.state == "done":
                shutil.copyfile(job.folder / RESULT, to / "data" / f"{job.name}.json")
    except OSError as error:
        raise UserError(f"--publish {to}: {error.strerror}") from None
