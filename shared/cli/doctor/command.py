"""The command `tandem doctor`."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared.cli.options import FAULT_EXIT, SYNC_URL, AsJson, KeyFile, Url

if TYPE_CHECKING:
    from shared.cli.doctor.finding import Finding

STYLES = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    planner_url: Annotated[str | None, typer.Option(envvar="TANDEM_PLANNER_URL", help="The planner server's.")] = None,
    executor_url: Annotated[str | None, typer.Option(envvar="TANDEM_EXECUTOR_URL", help="The executor's.")] = None,
    model: Annotated[list[Path] | None, typer.Option(help="A model folder to test; may be given again.")] = None,
    hashes: Annotated[Path | None, typer.Option(help="A file of key hashes that servers read.")] = None,
    folder: Annotated[Path, typer.Option(help="Where runs are kept: its disk is looked at.")] = Path("runs"),
    constraints: Annotated[Path, typer.Option(help="The versions that were tested.")] = Path("constraints.txt"),
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine, the servers, their clocks, keys and models; each FAIL says what to do, and makes exit code 1.

    Examples: tandem doctor; tandem doctor --key-file viewer.key --planner-url http://planner:8701;
    tandem doctor --model models/planner --json
    """
    from shared.cli.terminal import print_json

    urls = {"sync service": url, "planner server": planner_url, "executor server": executor_url}
    found = list(_findings({name: where for name, where in urls.items() if where}, key_file, hashes))
    found += _of_machine(constraints, folder, model or [])
    print_json([asdict(finding) for finding in found]) if as_json else _print(found)
    if any(finding.state == "FAIL" for finding in found):
        raise typer.Exit(FAULT_EXIT)


def _findings(urls: dict[str, str], key_file: Path | None, hashes: Path | None) -> Iterator["Finding"]:
    from shared.cli.doctor.access import access, key_files
    from shared.cli.doctor.finding import fail
    from shared.cli.doctor.servers import server
    from shared.cli.options import sync_server
    from shared.errors import UserError

    yield from (files := list(key_files(key_file, hashes)))
    for name, url in urls.items():
        found = list(server(name, url.rstrip("/")))
        yield from found
        if name == "sync service" and found[0].state == "OK" and all(f.state != "FAIL" for f in files):
            try:
                with sync_server(url, key_file) as sync:
                    yield from access(sync)
            except UserError as error:
                yield fail("sync service", error.detail, "use the command and the service of one version")


def _of_machine(constraints: Path, folder: Path, models: list[Path]) -> Iterator["Finding"]:
    from shared.cli.doctor import models as of_models
    from shared.cli.doctor.machine import machine

    yield from machine(constraints, folder)
    for each in models:
        yield from of_models.model(each)


def _print(found: list["Finding"]) -> None:
    from rich.table import Table
    from rich.text import Text

    from shared.cli.terminal import console, one_line

    made = Table("", "", "", "what to do", box=None, pad_edge=False)
    for finding in found:
        told = (one_line(finding.what), one_line(finding.text), one_line(finding.todo))
        made.add_row(Text(finding.state, style=STYLES[finding.state]), *told)
    console().print(made)
