"""`tandem demo`, and `tandem resume` of its folder: the main job on one machine."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from shared.errors import TandemError, UserError

if TYPE_CHECKING:  # imported where it is needed: every command should not pay for it
    from shared.cli.demo.settings import Settings

GATE_EXIT, NOT_LEARNING_EXIT, INTERRUPTED_EXIT = 3, 4, 130


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides, such as run.steps=50.")] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="A few warm-up steps, two training steps, no verdict.")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="Where the run lives; default runs/<time>.")] = None,
) -> None:
    """Warm up two small models, co-train them through the three services, and show what they learned.

    Examples: tandem demo; tandem demo --smoke; tandem demo run.steps=50 run.trained_roles='["planner"]'
    """
    from shared.cli.demo.settings import load_settings

    settings = load_settings("smoke" if smoke else "atlas", overrides or [])
    _run(new_folder(folder), settings)


def new_folder(folder: Path | None) -> Path:
    """The folder of a new run, made: that one, or runs/<time>. UserError where it cannot be, or is not empty."""
    where = folder or Path("runs") / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    try:
        where.mkdir(parents=True, exist_ok=True)
        occupied = any(where.iterdir())
    except OSError as error:
        raise UserError(f"--folder {where}: {error.strerror}") from None
    if occupied:
        raise UserError(f"{where} is not empty; choose another --folder, or go on with: tandem resume {where}")
    return where


def go_on(folder: Path, overrides: list[str] | None) -> NoReturn:
    """Go on with the demo in `folder`, and exit: `tandem resume` of a folder."""
    from shared.cli.demo.settings import Settings
    from shared.config import load

    _run(folder, load(Settings, folder / "config.toml", overrides))


def _run(folder: Path, settings: "Settings") -> NoReturn:
    from shared.cli.demo.conductor import conduct
    from shared.cli.demo.stage1 import GateFailed
    from shared.cli.demo.watch import NotLearning

    console = Console()
    console.print(f"run {folder}")
    try:
        sys.exit(interruptible(conduct(folder, settings, console)))
    except KeyboardInterrupt:
        console.print(f"stopped; go on with: tandem resume {folder}")
        sys.exit(INTERRUPTED_EXIT)
    except TandemError as error:
        print(f"tandem: {error.detail}", file=sys.stderr)
        sys.exit({GateFailed: GATE_EXIT, NotLearning: NOT_LEARNING_EXIT}.get(type(error), 2))


def interruptible(main: Coroutine[Any, Any, int]) -> int:
    """Run to the end; Ctrl-C and SIGTERM stop the servers in order, also where a script's `&` made us ignore Ctrl-C."""
    try:
        return asyncio.run(_stopped_by_signals(main))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except ExceptionGroup as group:
        raise _first(group) from None


async def _stopped_by_signals(main: Coroutine[Any, Any, int]) -> int:
    task = asyncio.current_task()
    assert task is not None
    for sig in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sig, task.cancel)
    return await main


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
