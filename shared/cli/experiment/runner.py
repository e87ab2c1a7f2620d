"""The jobs, one after another: what is done is not run again, what was begun goes on, what fails ends no other job.

A job takes both cores of a small machine, so no two run at once. All arms of one seed and one team start from the same
models, which are warmed up once.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from rich.progress import Progress, TaskID

from shared.cli.demo.stage1 import warm_up
from shared.cli.experiment.job import run_job
from shared.cli.experiment.plan import Job, check_start, remaining_s
from shared.cli.experiment.result import JobResult
from shared.cli.terminal import one_line, span
from shared.config import save
from shared.errors import TandemError
from shared.schemas.base import Role


async def run_jobs(jobs: Sequence[Job], progress: Progress, after_each: Callable[[], object]) -> dict[str, str]:
    """Run what is left; the reasons of those that failed, by the job's name. `after_each` follows each that is done."""
    failures: dict[str, str] = {}
    starts: dict[Path, str] = {}
    bar = progress.add_task("jobs", total=len(jobs), note="")
    for job in jobs:
        done = sum(one.state == "done" for one in jobs)
        progress.update(bar, completed=done, note=f"{job.name}; about {span(remaining_s(jobs))} left")
        if job.state == "done":
            continue
        try:
            if job.start in starts:  # what failed to warm up would do so again
                raise TandemError(starts[job.start])
            models = await _models(job, progress, starts)
            result = await run_job(job, models, progress)
            _tell(progress, f"{job.name}: {told(result)}")
            after_each()
        except Exception as error:  # noqa: BLE001 the outermost boundary: a job that fails ends no other one
            failures[job.name] = _reason(error)
            _tell(progress, f"{job.name} failed: {one_line(failures[job.name])}")
        _clear(progress, bar)
    progress.update(bar, completed=sum(one.state == "done" for one in jobs), note="")
    return failures


async def _models(job: Job, progress: Progress, starts: dict[Path, str]) -> dict[Role, Path]:
    """The models that the job starts from, warmed up by the first job that needs them."""
    job.start.mkdir(parents=True, exist_ok=True)
    check_start(job)
    try:
        save(job.settings, job.start / "config.toml")
        return await warm_up(job.start, job.settings, progress)
    except TandemError as error:
        starts[job.start] = error.detail
        raise


def told(result: JobResult) -> str:
    """What a job came to, in half a line."""
    before, after = (fmean(one.sampled.correct) for one in (result.before, result.after))
    return f"accuracy {before:.3f} -> {after:.3f}, in {span(result.seconds['job'])}"


def _tell(progress: Progress, line: str) -> None:
    """Above the bars; in a log it is all that is seen meanwhile."""
    progress.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.detail if isinstance(error, TandemError) else repr(error)


def _clear(progress: Progress, kept: TaskID) -> None:
    """The bars of a job go when it ends."""
    for task in progress.task_ids:
        if task != kept:
            progress.remove_task(task)
