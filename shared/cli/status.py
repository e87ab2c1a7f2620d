"""`tandem status`: is the run healthy, and if not, who waits for whom? Live on a terminal, once elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from shared.cli.options import SYNC_URL, AnyRun, AsJson, KeyFile, Url, sync_server
from shared.errors import Overloaded, Unavailable

if TYPE_CHECKING:
    from shared.cli.picture import Picture
    from shared.cli.server import Server


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(
    run: AnyRun = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, also on a terminal.")] = False,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds from look to look.")] = 2.0,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Show whether a run is healthy, who waits for whom, and how far both roles are; live, until it ends or Ctrl-C.

    Examples: tandem status; tandem status museum-1 --once; tandem status museum-1 --json
    """
    from shared.cli.names import choose_run
    from shared.cli.picture import look
    from shared.cli.picture_view import render
    from shared.cli.terminal import console, print_json

    with sync_server(url, key_file) as server:
        picture = look(server, choose_run(server, run))
        if as_json:
            print_json(picture.plain())
        elif once or not sys.stdout.isatty():
            console().print(render(picture))
        else:
            _live(server, picture, every)


def _live(server: "Server", picture: "Picture", every_s: float) -> None:
    """Look again and again. While the service is away, the last picture stays, with its age and the reason.

    The counts of a very long run take a second or two: looking takes at most a fifth of the time.
    """
    from rich.live import Live

    from shared.cli.picture import look
    from shared.cli.picture_view import render
    from shared.cli.terminal import console

    seen, fault, took = time.monotonic(), None, 0.0
    with Live(render(picture), console=console(), auto_refresh=False) as live:
        while fault or not picture.over:
            time.sleep(max(every_s, 4 * took))
            began = time.monotonic()
            try:
                picture, seen, fault = look(server, picture.status.run), time.monotonic(), None
                took = seen - began
            except (Unavailable, Overloaded) as error:
                fault = error.detail
            live.update(render(picture, fault=fault, age_s=time.monotonic() - seen), refresh=True)
