"""`tandem eval`: how good is the pair, by an evaluation on the servers that run."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shared.cli.options import SYNC_URL, AnyRun, AsJson, KeyFile, Url, read_key, sync_server
from shared.errors import TandemError, UserError

if TYPE_CHECKING:
    from shared.cli.server import Server
    from shared.schemas.invocation import EvaluationRequest, EvaluationView

POLL_S = 0.5
SILENCE_S = 60.0
"""A server that has not answered for so long has taken the evaluation with it."""
CHECKPOINT = "initial, latest, best, live or step-N: the"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)


def evaluate(
    run: AnyRun = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    n: Annotated[int, typer.Option(help="How many tasks.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the order of the tasks, whose first ones are taken.")] = 0,
    temperature: Annotated[float, typer.Option(help="Of both roles; 0 is greedy.")] = 1.0,
    planner_checkpoint: Annotated[str, typer.Option(help=f"{CHECKPOINT} planner's weights.")] = "live",
    executor_checkpoint: Annotated[str, typer.Option(help=f"{CHECKPOINT} executor's weights.")] = "live",
    planner_url: Annotated[
        str | None,
        typer.Option(envvar="TANDEM_PLANNER_URL", help="Where the planner server is; else the sync service is asked."),
    ] = None,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a pair of checkpoints beside the training: accuracy with its 95% interval. Needs an operator's key.

    Examples: tandem eval museum-1 --n 400 --temperature 0;
    tandem eval --split validation --planner-checkpoint best --executor-checkpoint best --json
    """
    from shared.cli.server import Server

    request = _request(
        {
            "split": split,
            "n": n,
            "seed": seed,
            "temperature": temperature,
            "planner_checkpoint": planner_checkpoint,
            "executor_checkpoint": executor_checkpoint,
        }
    )
    if planner_url is None:
        with sync_server(url, key_file) as sync:
            planner_url = _planner_of(sync, run)
    with Server(planner_url, read_key(key_file), "the planner server") as server:
        view = _result(server, request)
    _show(view, as_json)


def _request(fields: dict[str, Any]) -> "EvaluationRequest":
    from shared.config import parse
    from shared.schemas.invocation import EvaluationRequest

    return parse(EvaluationRequest, fields, "tandem eval")


def _planner_of(sync: "Server", run: str | None) -> str:
    from shared.cli.names import choose_run
    from shared.schemas.views import WorkerRow

    name = choose_run(sync, run)
    workers = [w for w in sync.items(f"/v1/runs/{name}/workers", WorkerRow) if w.role == "planner"]
    alive = [worker.url for worker in workers if not worker.lost]
    if not alive:
        raise UserError(f"run {name} has no planner server that is alive: start it, or give --planner-url")
    return alive[0]


def _result(server: "Server", request: "EvaluationRequest") -> "EvaluationView":
    """Start it, wait for it, and show how far it is. UserError: it failed, or its server was away for long."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from shared.cli.terminal import console
    from shared.ids import new_id
    from shared.schemas.invocation import EvaluationView

    path = f"/v1/evaluations/{new_id()}"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"{request.split} tasks", total=request.n)
        view, heard = server.put(path, request, EvaluationView), time.monotonic()
        while view.state == "running":
            time.sleep(POLL_S)
            try:
                view, heard = server.get(path, EvaluationView), time.monotonic()
            except TandemError as error:
                if not error.retryable or time.monotonic() - heard > SILENCE_S:
                    raise
            progress.update(bar, completed=view.done)
    if view.state == "failed":
        raise UserError(f"the evaluation failed: {view.reason}")
    return view


def _show(view: "EvaluationView", as_json: bool) -> None:
    from shared.cli.demo.intervals import accuracy
    from shared.cli.terminal import console, print_json, table

    estimate = accuracy(view.correct)
    if as_json:
        interval = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
        return print_json(view.model_dump(mode="json") | {"interval": interval})
    asked, n = view.request, len(view.correct)
    rows = [
        ("accuracy (95% interval)", str(estimate)),
        *((f"accuracy, {kind}", f"{value:.3f}") for kind, value in view.by_kind.items()),
        ("planner's format", f"{sum(view.planner_format) / n:.3f}"),
        ("executor's format", None if view.executor_format_rate is None else f"{view.executor_format_rate:.3f}"),
        ("calls a rollout", f"{sum(view.calls) / n:.2f}"),
        ("seconds", f"{view.seconds:.1f}"),
    ]
    pair = f"planner {asked.planner_checkpoint}, executor {asked.executor_checkpoint}"
    console().print(f"{n} tasks of {asked.split}, temperature {asked.temperature:g}: {pair}")
    console().print(table(("", ""), rows))
