"""The demo, from top to bottom. Every stage takes up what an earlier start of the same folder has finished.

warm both models up -> start the three services -> gate on joint success -> declare the run -> follow it, validating
beside it -> evaluate the 2x2 -> summary, table, plot.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from shared.cli.demo.evaluations import Evaluator
from shared.cli.demo.grid import evaluate_grid
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.pilot import resolve_d_max
from shared.cli.demo.plot import plot_curves
from shared.cli.demo.services import Services, check_configuration
from shared.cli.demo.settings import Settings, run_name
from shared.cli.demo.stage1 import GateFailed, warm_up
from shared.cli.demo.stopwatch import Stopwatch
from shared.cli.demo.summary import plain, rose, summarise
from shared.cli.demo.table import print_table
from shared.cli.demo.watch import Watch
from shared.client import SyncClient
from shared.config import save
from shared.errors import UserError
from shared.ids import Name
from shared.lock import locked
from shared.mgrpo.formula import formulas
from shared.schemas.invocation import EvaluationRequest, EvaluationView

NO_RISE_EXIT = 1
NAME: TypeAdapter[str] = TypeAdapter(Name)


async def conduct(folder: Path, settings: Settings, console: Console) -> int:
    """Run or resume the run in `folder`; the exit code: 0, or 1 where accuracy did not rise beyond its interval."""
    check_name(folder)
    settings.spec()  # what is resumed may have been changed: it is said before the warm-up, and not after it
    with locked(folder):
        return await _conduct(folder, settings, console)


async def _conduct(folder: Path, settings: Settings, console: Console) -> int:
    save(settings, folder / "config.toml")
    clock = Stopwatch(folder / "seconds.json")
    with bars(console) as progress:
        check_configuration(folder, settings, {"planner": folder, "executor": folder})
        with clock.stage("warm-up"):
            models = await warm_up(folder, settings, progress)
        async with Services(folder, settings, models) as services, parts(folder, services) as (sync, evaluator):
            console.print(f"watch: {services.watch_command()}", soft_wrap=True, markup=False, highlight=False)
            console.print(f"logs: {folder}/logs")
            metrics = Metrics(folder / "metrics.jsonl")
            with clock.stage("gate"):
                await gate(settings, evaluator, metrics, progress)
                spec = settings.spec(await resolve_d_max(settings, evaluator))
            await sync.declare_run(run_name(folder), spec)
            for formula in formulas(spec).values():
                console.print(formula, soft_wrap=True, markup=False, highlight=False)
            with clock.stage("training"):
                status = await Watch(folder, settings, services, sync, evaluator, metrics, progress).until_finished()
            with clock.stage("evaluation"):
                grid = await evaluate_grid(settings, evaluator, services.urls, progress)
    summary = plain(summarise(settings, metrics, grid, status, clock.seconds))
    (folder / "summary.json").write_text(json.dumps(summary, indent=1))
    await asyncio.to_thread(plot_curves, settings, metrics, grid, folder / "curves.png")
    print_table(console, summary)
    console.print(f"plot: {folder}/curves.png   figures: {folder}/summary.json")
    return 0 if rose(summary) or not settings.demo.learning_verdict else NO_RISE_EXIT


def check_name(folder: Path) -> None:
    """UserError where the run, which is named after its folder, would have no name."""
    try:
        NAME.validate_python(run_name(folder))
    except ValidationError:
        raise UserError(f"{folder}: a run has its folder's name, of letters, digits, dots, - and _") from None


@asynccontextmanager
async def parts(folder: Path, services: Services) -> AsyncGenerator[tuple[SyncClient, Evaluator]]:
    """The clients of the running services."""
    key = services.keys.text("operator")
    log = folder / "evaluations.jsonl"
    evaluator = Evaluator(run_name(folder), services.urls.planner, log, services.check, key=key)
    async with SyncClient(services.urls.sync, key=key, retry_for_s=20.0) as sync:
        try:
            yield sync, evaluator
        finally:
            await evaluator.close()


async def gate(settings: Settings, evaluator: Evaluator, metrics: Metrics, progress: Progress) -> None:
    """Joint success and both formats of the warmed-up pair, through the servers; GateFailed says which does not hold.

    From under a tenth of joint success every group is dead within a few steps, and nothing is learned.
    """
    section = settings.warmup
    if section.steps is not None:
        return
    bar = progress.add_task("gate", total=section.joint_tasks, note="")
    request = EvaluationRequest(
        split="validation",
        n=section.joint_tasks,
        seed=settings.spec().seed,
        planner_checkpoint="initial",
        executor_checkpoint="initial",
    )
    view = await evaluator.evaluate(request, lambda done: progress.update(bar, completed=done))
    metrics.add_validation(0, view.correct[: settings.demo.validation_tasks])  # the same tasks as every later one
    for fault in gate_faults(settings, view):
        raise GateFailed(f"the warm-up's gate does not hold on validation: {fault}")
    progress.update(bar, completed=section.joint_tasks, note=f"joint success {view.accuracy:.2f}")


def gate_faults(settings: Settings, view: EvaluationView) -> Iterator[str]:
    """What of the gate does not hold, in words."""
    section, accuracy = settings.warmup, view.accuracy or 0.0
    planner_format = sum(view.planner_format) / max(1, len(view.planner_format))
    executor_format = view.executor_format_rate or 0.0
    if planner_format < section.planner_format:
        yield f"planner format {planner_format:.3f}, at least {section.planner_format} is needed"
    if executor_format < section.executor_format:
        yield f"executor format {executor_format:.3f}, at least {section.executor_format} is needed"
    if not section.joint_low <= accuracy <= section.joint_high:
        yield f"joint success {accuracy:.3f}, {section.joint_low} to {section.joint_high} is needed"


@contextmanager
def bars(console: Console) -> Generator[Progress]:
    """Live progress bars on a terminal; in a log, nothing moves and the table comes at the end."""
    columns = (TextColumn("{task.description:<18}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}"), console=console) as progress:
        yield progress
