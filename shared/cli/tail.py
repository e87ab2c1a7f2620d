"""`tandem tail`: what happens, as it happens; a stream that drops is taken up where it broke off."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from shared.cli.options import SYNC_URL, AsJson, KeyFile, Url, sync_server
from shared.errors import TandemError, UserError

if TYPE_CHECKING:
    from shared.cli.server import Server
    from shared.schemas.events import Event

ALARMS = ("stall-began", "worker-lost", "delivery-dead")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(tail)


def tail(
    run: Annotated[str | None, typer.Argument(help="The run's name; left out, every run.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind of event; may be given again.")] = None,
    role: Annotated[str | None, typer.Option(help="Only what is about this role's stream.")] = None,
    after: Annotated[int | None, typer.Option(min=0, help="Begin above this position; 0: at the beginning.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    follow: Annotated[bool, typer.Option(help="Wait for more; else end with what there is.")] = True,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Print events, one a line, from now on or after a position.

    Examples: tandem tail museum-1; tandem tail --kind stall-began --kind worker-lost --json;
    tandem tail museum-1 --after 0 --no-follow
    """
    from shared.cli.names import run_name
    from shared.cli.positions import last_position
    from shared.schemas.base import ROLES
    from shared.schemas.events import EventKind

    kinds = set(kind or get_args(EventKind))
    if unknown := sorted(kinds - set(get_args(EventKind))):
        raise UserError(f"--kind {unknown[0]!r}: the kinds are {', '.join(get_args(EventKind))}")
    if role not in (None, *ROLES):
        raise UserError(f"--role {role!r}: it is planner or executor")
    name = None if run is None else run_name(run)
    with sync_server(url, key_file) as server:
        if after is None:
            after = last_position(server, name)
        source = _stream(server, name, after) if follow else _stored(server, name, after)
        wanted = (event for event in source if event.kind in kinds and role in (None, event.body.get("role")))
        for event in islice(wanted, count):
            _print(event, as_json)


def _stored(server: "Server", run: str | None, after: int) -> Iterator["Event"]:
    """What there is above `after`."""
    from shared.schemas.events import EventPage

    while (page := server.get("/v1/events", EventPage, after=after, run=run)).items:
        yield from page.items
        after = page.after


def _stream(server: "Server", run: str | None, after: int) -> Iterator["Event"]:
    """Events without end. Each time the stream ends or breaks it comes back with the last position."""
    from shared.cli.sse import events
    from shared.cli.terminal import console, one_line

    pause_s = FIRST_PAUSE_S
    while True:
        headers = {"accept": "text/event-stream", "last-event-id": str(after)}
        try:
            with server.lines("/v1/events", headers, run=run) as lines:
                for event in events(lines):
                    yield event
                    after, pause_s = event.position, FIRST_PAUSE_S
        except TandemError as error:
            if not error.retryable:
                raise
            console(stderr=True).print(f"tandem: {one_line(error.detail)}; again in {pause_s:g} s")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _print(event: "Event", as_json: bool) -> None:
    from shared.cli.terminal import clean, console, print_json

    if as_json:
        return print_json(event.model_dump(mode="json"))
    body = "  ".join(f"{name}={value}" for name, value in event.body.items())
    line = f"{event.position:>8}  {event.at[:19]}  {event.run}  {event.kind:<18}  {body}"
    console().print(
        " ".join(clean(line).splitlines()), style="bold red" if event.kind in ALARMS else None, soft_wrap=True
    )
