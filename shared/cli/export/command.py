"""The command `tandem export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared.cli.options import SYNC_URL, AsJson, KeyFile, Url, sync_server
from shared.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(export)


def export(
    source: Annotated[Path, typer.Argument(help="A checkpoint, or the folder of a run or a server.")],
    to: Annotated[Path, typer.Option(help="The new folder, or with --trajectories the new file.", show_default=False)],
    role: Annotated[str | None, typer.Option(help="planner or executor, of a run's folder.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="best, latest or step-N; else the best, if one is marked, or the latest.")
    ] = None,
    trajectories: Annotated[bool, typer.Option("--trajectories", help="Export the trajectories as JSONL.")] = False,
    fates_of: Annotated[
        str | None, typer.Option(help="With --trajectories: ask the sync service what became of those of this run.")
    ] = None,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Export a checkpoint as a clean Hugging Face folder with a model card, or a run's trajectories as JSONL.

    Examples: tandem export runs/20261130-101500 --role planner --to planner-model;
    tandem export runs/20261130-101500/executor/checkpoints/step-100 --to executor-model;
    tandem export runs/20261130-101500 --trajectories --to trajectories.jsonl
    """
    from shared.schemas.base import ROLES

    if role not in (None, *ROLES):
        raise UserError(f"--role {role!r}: it is planner or executor")
    if not trajectories:
        if fates_of:
            raise UserError("--fates-of goes with --trajectories")
        _checkpoint(source, to, role, checkpoint, as_json)
    elif checkpoint:
        raise UserError("--checkpoint has no use with --trajectories")
    else:
        _trajectories(source, to, role, fates_of, url, key_file, as_json)


def _checkpoint(source: Path, to: Path, role: str | None, name: str | None, as_json: bool) -> None:
    from shared.cli.export.checkpoint import export_checkpoint, public_files
    from shared.cli.export.source import find_checkpoint
    from shared.cli.terminal import print_json

    found = find_checkpoint(source, role, name)
    total = sum(file.stat().st_size for file in public_files(found))
    with _bars() as progress:
        bar = progress.add_task("copying", total=total)
        names = export_checkpoint(found, to, lambda size: progress.advance(bar, size))
    told = {"checkpoint": str(found), "to": str(to), "files": names}
    print_json(told) if as_json else print(f"{found} is in {to}: {', '.join(names)}")


def _trajectories(
    source: Path, to: Path, role: str | None, run: str | None, url: str, key_file: Path | None, as_json: bool
) -> None:
    from shared.cli.export.fates import fates
    from shared.cli.export.source import find_stores
    from shared.cli.export.trajectories import count, export_trajectories
    from shared.cli.names import run_name
    from shared.cli.terminal import print_json

    stores, known = find_stores(source, role), {}
    if run is not None:
        with sync_server(url, key_file) as server:
            known = fates(server, run_name(run))
    with _bars() as progress:
        bar = progress.add_task("trajectories", total=count(stores))
        written = export_trajectories(stores, to, known, lambda done: progress.advance(bar, done))
    told = {"to": str(to), "trajectories": written, "with_fates": len(known)}
    print_json(told) if as_json else print(f"{written} trajectories are in {to}")


def _bars() -> "Progress":
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from shared.cli.terminal import console

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console(stderr=True), transient=True)
