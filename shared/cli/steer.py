"""What an operator does to a run and to what is in it: pause, resume, drain, fail; discard, requeue, skip."""

from pathlib import Path
from typing import Annotated

import typer

from shared.cli.options import SYNC_URL, AsJson, KeyFile, Run, Url, sync_server

Delivery = Annotated[str, typer.Argument(help="Its id, as `tandem status` shows it.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (pause, resume, drain, fail, discard, requeue, skip):
        app.command()(command)


def pause(run: Run, url: Url = SYNC_URL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Pause a run: nothing is opened, deadlines stand still, both trainers finish what they hold.

    Example: tandem pause museum-1 --key-file operator.key
    """
    _move(url, key_file, run, "pause", as_json, f"go on with: tandem resume {run}")


def resume(
    target: Annotated[str, typer.Argument(help="A run's name, or the folder of a demo.", show_default=False)],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Of a demo: dotted overrides of what is not declared yet.")
    ] = None,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """End the pause of a run; or, with a folder, go on with a demo that was stopped or killed.

    A folder is what exists as one, or is written with a slash: nothing that was finished in it is done again.

    Examples: tandem resume museum-1; tandem resume runs/20261130-101500
    """
    from shared.cli.demo_commands import go_on

    if overrides or "/" in target or Path(target).is_dir():
        go_on(Path(target), overrides)
    _move(url, key_file, target, "resume", as_json, "it goes on")


def drain(run: Run, url: Url = SYNC_URL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Drain a run: nothing more is opened, and it finishes when all that was opened is trained. There is no way back.

    Example: tandem drain museum-1
    """
    _move(url, key_file, run, "drain", as_json, "it opens nothing more")


def fail(
    run: Run,
    reason: Annotated[str, typer.Option(help="A code, such as bad-reward.", show_default=False)],
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """End a run as failed, now. There is no way back.

    Example: tandem fail museum-1 --reason bad-reward
    """
    _move(url, key_file, run, "fail", as_json, "it is over", reason=reason)


def discard(
    group: Annotated[str, typer.Argument(help="Its id, as `tandem groups` shows it.", show_default=False)],
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Give an open group up: nothing of it is trained on.

    Example: tandem discard 0197a6f0-0000-7000-8000-000000000001
    """
    from shared.cli.names import thing_id
    from shared.schemas.rollout import GroupView

    with sync_server(url, key_file) as server:
        view = server.post(f"/v1/groups/{thing_id(group)}:discard", GroupView)
    _show(as_json, view.model_dump(mode="json"), f"group {view.group} of step {view.step} is {view.state}")


def requeue(delivery: Delivery, url: Url = SYNC_URL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Give a dead delivery all its attempts again.

    Example: tandem requeue 01a22a47-804d-7120-9c0e-ea3d6f1c4f7c
    """
    _deliver(url, key_file, delivery, "requeue", as_json)


def skip(delivery: Delivery, url: Url = SYNC_URL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Give a dead delivery up: its step trains nothing, and the stream goes on after it.

    Example: tandem skip 01a22a47-804d-7120-9c0e-ea3d6f1c4f7c
    """
    _deliver(url, key_file, delivery, "skip", as_json)


def _move(url: str, key_file: Path | None, run: str, verb: str, as_json: bool, then: str, **query: str) -> None:
    from shared.cli.names import run_name
    from shared.schemas.run import RunView

    with sync_server(url, key_file) as server:
        view = server.post(f"/v1/runs/{run_name(run)}:{verb}", RunView, **query)
    _show(as_json, view.model_dump(mode="json"), f"run {view.run} is {view.state}: {then}")


def _deliver(url: str, key_file: Path | None, delivery: str, verb: str, as_json: bool) -> None:
    from shared.cli.names import thing_id
    from shared.schemas.views import DeliveryRow

    with sync_server(url, key_file) as server:
        row = server.post(f"/v1/deliveries/{thing_id(delivery)}:{verb}", DeliveryRow)
    told = f"the {row.role}'s step {row.step} of run {row.run} is {row.state}"
    _show(as_json, row.model_dump(mode="json"), f"{told} ({row.reason})" if row.reason else told)


def _show(as_json: bool, whole: dict, text: str) -> None:
    from shared.cli.terminal import one_line, print_json

    print_json(whole) if as_json else print(one_line(text))
