"""`tandem serve`: look at a run whose servers have stopped, on the database in its folder."""

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared.cli.options import AsJson
from shared.errors import TandemError, UserError

if TYPE_CHECKING:
    from shared.process import Service

HOST = "127.0.0.1"
START_S = 120.0
STILL = ("reaper_s=3600", "stall_s=3600")
"""Nobody serves this run: its deadlines are not swept, and its waits are nobody's stalls."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    folder: Annotated[Path, typer.Argument(help="The run's folder, such as runs/20261130-101500.", show_default=False)],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: one that is free.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Serve the dashboard of a run that has stopped, to this machine only and without keys, until Ctrl-C.

    It starts the sync service on the run's own database, and no trainer: nothing goes on.

    Example: tandem serve runs/20261130-101500
    """
    from shared.cli.terminal import print_json
    from shared.http.ports import free_port
    from shared.process import Service

    database = folder / "database"
    if not database.is_dir():
        raise UserError(f"{folder} has no database of its own: `tandem demo` makes such folders")
    port = port or free_port(HOST)
    command = [sys.executable, "-m", "sync_service", "serve", "--auth", "loopback", "--host", HOST, "--port", str(port)]
    service = Service("sync service", [*command, "--embedded", str(database), *STILL], folder / "logs" / "serve.log")
    url = f"http://{HOST}:{port}"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's `&` starts it with interrupts ignored
    try:
        _until_ready(service, url)
        print_json({"url": url}) if as_json else print(f"{folder} is at {url}; Ctrl-C ends it", flush=True)
        sys.stdout.flush()
        while service.exit_code is None:
            time.sleep(0.2)
    finally:
        service.stop()
    raise TandemError(_last_line(service))


def _until_ready(service: "Service", url: str) -> None:
    import httpx

    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if service.exit_code is not None:
            raise UserError(_last_line(service))
        try:
            if httpx.get(f"{url}/readyz", timeout=5.0, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise UserError(f"the sync service was not ready within {START_S:.0f} s; its log is {service.log}")


def _last_line(service: "Service") -> str:
    from shared.process import tail

    lines = tail(service.log, 1).strip()
    return lines.removeprefix("sync_service: ") or f"the sync service ended; its log is {service.log}"
