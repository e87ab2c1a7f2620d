"""An experiment, from top to bottom: check it, run its jobs, write its report. A folder has one at a time."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from shared.cli.demo.conductor import bars
from shared.cli.demo.services import check_configuration
from shared.cli.experiment.experiment import Experiment
from shared.cli.experiment.plan import Job
from shared.cli.experiment.report import publish, write_report
from shared.cli.experiment.runner import run_jobs
from shared.cli.experiment.summary import summarise, write_summary
from shared.cli.options import FAULT_EXIT
from shared.cli.terminal import one_line, print_json
from shared.errors import UserError
from shared.lock import locked


async def conduct(experiment: Experiment, console: Console, *, publish_to: Path | None, as_json: bool) -> int:
    """Run what is left, and write the report, of all that is done in the folder; the exit code."""
    folder = experiment.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--folder {folder}: {error.strerror}") from None
    with locked(folder, "runs an experiment"):
        experiment.results()  # one that is spoilt is told before anything long starts
        check_first(experiment.jobs)
        with bars(console) as progress:
            failures = await run_jobs(
                experiment.jobs, progress, lambda: write_summary(folder, summarise(experiment, {}))
            )
        summary = summarise(experiment, failures)
        write_summary(folder, summary)
        if summary["arms"]:
            write_report(folder, summary, experiment.results(), experiment.about(summary["arms"]))
            console.print(f"report: {folder}/README.md, {folder}/tasks.html, {folder}/summary.json", soft_wrap=True)
            if publish_to is not None:
                publish(folder, publish_to, experiment.in_folder())
    if as_json:
        print_json(summary)
    for name, reason in failures.items():
        console.print(f"{name} failed: {one_line(reason)}", soft_wrap=True)
    return FAULT_EXIT if failures else 0


def check_first(jobs: Sequence[Job]) -> None:
    """Let the servers look at the first job that is to run: a mistake in an override is the same in all of them."""
    for job in [job for job in jobs if job.state != "done"][:1]:
        job.start.mkdir(parents=True, exist_ok=True)
        check_configuration(job.start, job.settings, dict.fromkeys(job.settings.roles, job.start))
