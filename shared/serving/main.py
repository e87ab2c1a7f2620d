"""The command line of a server: `--config FILE [--check] [key=value ...]`, and exit codes that say what happened.

0: stopped as asked. 1: a loop or a child process died. 2: a user's mistake, a key that is refused, versions that do
not fit, or a database that is older than the checkpoint. The last line on stderr says which. 130: Ctrl-C before it
served.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import structlog
from fastapi import FastAPI

from shared.config import load, save
from shared.environments.registry import load_environment
from shared.errors import (
    CheckpointAhead,
    Forbidden,
    ProtocolMismatch,
    TandemError,
    Unauthorized,
    UserError,
    from_os_error,
)
from shared.http.serve import configure_logs, serve
from shared.lock import locked
from shared.serving.config import ServerConfig

log = structlog.get_logger()
C = TypeVar("C", bound=ServerConfig)
INTERRUPTED = 130
NEEDS_A_PERSON = (UserError, Unauthorized, Forbidden, ProtocolMismatch, CheckpointAhead)
"""What starting again does not mend."""


def run_server(name: str, config_class: type[C], create_app: Callable[[C], FastAPI], argv: Sequence[str] | None) -> int:
    """Read the configuration, serve until told to stop, and return the exit code."""
    arguments = _parser(name).parse_args(argv)
    try:
        config = load(config_class, arguments.config, arguments.overrides)
        if arguments.check:
            load_environment(config.environment, config.environment_options)
            return 0
        configure_logs()
        config.folder.mkdir(parents=True, exist_ok=True)
        with locked(config.folder):
            save(config, config.folder / "config.toml")
            app = create_app(config)
            serve(app, config.host, config.port)
        fault: BaseException | None = getattr(app.state, "fault", None)
    except (UserError, OSError) as error:
        fault = error
    except KeyboardInterrupt:
        return INTERRUPTED
    return _report(name, fault)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name.replace("-", "_"), description=f"Run the {name.replace('-', ' ')}.")
    parser.add_argument("--config", type=Path, help="a TOML file; what it leaves out has its default")
    parser.add_argument("--check", action="store_true", help="validate the configuration and exit")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="dotted overrides, laid over the file")
    return parser


def _report(name: str, fault: BaseException | None) -> int:
    """One clear line; a traceback only in the log, and only for a fault that nobody foresaw."""
    if fault is None:
        return 0
    if isinstance(fault, OSError) and fault.filename:
        fault = from_os_error(fault)
    if not isinstance(fault, TandemError):
        log.error("unexpected", exc_info=fault)
    detail = fault.detail if isinstance(fault, TandemError) else f"{type(fault).__name__}: {fault}"
    print(f"{name}: {detail}", file=sys.stderr, flush=True)
    return 2 if isinstance(fault, NEEDS_A_PERSON) else 1
