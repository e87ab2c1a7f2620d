"""An experiment, from top to bottom: check it, run its jobs, write its report. A folder has one at a time."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from shared.cli.demo.conductor import bars
from shared.cli.experiment.definition import Definition, load_definition
from shared.cli.experiment.plan import Job, check_settings, plan
from shared.cli.experiment.provenance import commit, machine
from shared.cli.experiment.result import JobResult, read_result
from shared.cli.experiment.runner import run_jobs
from shared.cli.experiment.summary import summarise
from shared.cli.options import FAULT_EXIT
from shared.cli.terminal import print_json
from shared.errors import UserError
from shared.lock import locked


@dataclass(frozen=True, slots=True)
class Experiment:
    """What was asked for."""

    definition: Definition
    folder: Path
    setting: str
    jobs: list[Job]

    @classmethod
    def chosen(
        cls,
        *,
        folder: Path,
        config: Path | None,
        arms: list[str] | None,
        seeds: list[int],
        setting: str,
        smoke: bool,
        overrides: list[str],
    ) -> "Experiment":
        """UserError names what there is not, and a job in the folder that was begun with other settings."""
        definition = load_definition(config)
        definition.check_setting(setting)
        jobs = plan(
            definition,
            folder,
            arms=definition.chosen(arms),
            seeds=seeds,
            setting=setting,
            smoke=smoke,
            overrides=overrides,
        )
        check_settings(jobs)
        return cls(definition, folder, setting, jobs)

    def results(self) -> list[JobResult]:
        """Those of the jobs that are done."""
        return [result for job in self.jobs if (result := read_result(job)) is not None]


async def conduct(experiment: Experiment, console: Console, as_json: bool) -> int:
    """Run what is left, and write the report; the exit code."""
    try:
        experiment.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--folder {experiment.folder}: {error.strerror}") from None
    with locked(experiment.folder, "runs an experiment"):
        with bars(console) as progress:
            failures = await run_jobs(experiment.jobs, progress, partial(write_summary, experiment, {}))
        summary = write_summary(experiment, failures)
    if as_json:
        print_json(summary)
    for name, reason in failures.items():
        console.print(f"{name} failed: {reason}")
    return FAULT_EXIT if failures else 0


def write_summary(experiment: Experiment, failures: dict[str, str]) -> dict:
    """`summary.json`, of all jobs that are done."""
    summary = {
        "setting": experiment.setting,
        "commit": commit(),
        "machine": machine(),
        "jobs": {job.name: job.state for job in experiment.jobs},
        "failures": failures,
        **summarise(experiment.results(), experiment.definition.comparisons),
    }
    beside = experiment.folder / "summary.json.new"
    beside.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
    beside.replace(experiment.folder / "summary.json")
    return summary
