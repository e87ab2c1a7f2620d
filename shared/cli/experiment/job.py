"""One job, from top to bottom: a demo run in a folder of its own, that goes on where an earlier start of it was.

its start's models -> the servers -> validation at step 0 -> declare the run -> follow it, validating beside it -> the
test tasks on the first and the last checkpoints -> count tokens -> `result.json`.
"""

from contextlib import closing
from pathlib import Path

from rich.progress import Progress

from shared.cli.demo.conductor import parts
from shared.cli.demo.evaluations import FIRST, Evaluator, of_checkpoints
from shared.cli.demo.grid import MODES
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.pilot import resolve_d_max
from shared.cli.demo.services import Services
from shared.cli.demo.settings import Settings, run_name, trained
from shared.cli.demo.stopwatch import Stopwatch
from shared.cli.demo.watch import Watch, validation_request
from shared.cli.experiment.plan import SECONDS, Job
from shared.cli.experiment.provenance import commit, machine
from shared.cli.experiment.result import Evaluations, JobResult, curves
from shared.cli.export.source import STORE
from shared.config import save
from shared.lock import locked
from shared.policy.records import connect
from shared.schemas.base import Role
from shared.schemas.invocation import EvaluationRequest

SHOWN_TASKS = 10
"""The first test tasks of a seed: those whose texts the page shows, before and after."""


async def run_job(job: Job, models: dict[Role, Path], progress: Progress) -> JobResult:
    """Run it, or go on with it; the result is also in its folder."""
    job.folder.mkdir(parents=True, exist_ok=True)
    settings = with_models(job.settings, models)
    clock = Stopwatch(job.folder / SECONDS)
    with locked(job.folder), clock.stage("job"):
        save(settings, job.folder / "config.toml")
        metrics = Metrics(job.folder / "metrics.jsonl")
        async with Services(job.folder, settings, models) as services, parts(job.folder, services) as (sync, evaluator):
            first = await evaluator.evaluate(validation_request(settings, FIRST))
            metrics.add_validation(0, first.correct)
            await sync.declare_run(run_name(job.folder), settings.spec(await resolve_d_max(settings, evaluator)))
            with clock.stage("training"):
                await Watch(job.folder, settings, services, sync, evaluator, metrics, progress).until_finished()
            with clock.stage("evaluation"):
                last = {
                    role: await evaluator.last_checkpoint(getattr(services.urls, role)) for role in trained(settings)
                }
                before = await _test(settings, evaluator, {}, f"test, {job.name} before", progress)
                after = await _test(settings, evaluator, last, f"test, {job.name} after", progress)
    result = JobResult(
        arm=job.arm,
        seed=job.seed,
        team=settings.team,
        commit=commit(),
        machine=machine(),
        steps=settings.spec().steps,
        before=before,
        after=after,
        validation=metrics.validations,
        curves=curves(metrics),
        tokens={role: sampled_tokens(job.folder / role / STORE) for role in settings.roles},
        seconds=clock.seconds,
    )
    result.write(job.folder)
    return result


def with_models(settings: Settings, models: dict[Role, Path]) -> Settings:
    """The settings of a job that starts from these models."""
    return settings.model_copy(update={"warmup": settings.warmup.model_copy(update={"models": models})})


async def _test(
    settings: Settings, evaluator: Evaluator, checkpoints: dict[Role, str], what: str, progress: Progress
) -> Evaluations:
    """Both modes on the same tasks; a role without a checkpoint here is as it was before training."""
    n = settings.demo.test_tasks
    bar = progress.add_task(what, total=len(MODES) * n, note="")
    views = {}
    for place, (mode, temperature) in enumerate(MODES.items()):
        request = EvaluationRequest(
            split="test",
            n=n,
            seed=settings.spec().seed,
            temperature=temperature,
            transcripts=min(n, SHOWN_TASKS),
            **of_checkpoints(settings, checkpoints),
        )
        start = place * n
        views[mode] = await evaluator.evaluate(
            request, lambda done, start=start: progress.update(bar, completed=start + done)
        )
    progress.update(bar, completed=len(MODES) * n)
    return Evaluations(**views)


def sampled_tokens(store: Path) -> int:
    """The tokens that a role's model sampled for the run, trained on or not, by its trajectory store."""
    with closing(connect(store, write=False)) as connection:
        masks = connection.execute("SELECT mask FROM trajectories")
        return sum(sum(mask) for (mask,) in masks)
