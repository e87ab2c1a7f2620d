"""Run an app under uvicorn: a clear line where the port is taken, a bounded shutdown, structured logs."""

import contextlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from shared.errors import UserError
from shared.http.connection import Connection

SHUTDOWN_S = 10
"""How long open requests may take to end after a signal."""
EXIT_S = 25
"""How long the process may take to end after a signal, whatever hangs in it."""
THREAD_S = 1.0
"""How long a thread that was told to end may take for it."""


def configure_logs() -> None:
    """One JSON line an event, to stderr; what libraries log by the standard library, too."""
    told: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    rendered: list[Processor] = [ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler()
    handler.setFormatter(ProcessorFormatter(processors=rendered, foreign_pre_chain=told))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
    structlog.configure(
        processors=[*told, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; UserError says which port is in use."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(socket.SOMAXCONN)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "a port is 0 to 65535"
        raise UserError(f"cannot listen on {host}:{port}: {reason}; choose another port") from None
    except (TypeError, ValueError):
        listener.close()
        raise UserError(f"cannot listen on {host!r}: this is no name of a host") from None
    return listener


class Server(uvicorn.Server):
    """uvicorn, but a stop that was asked for is exit code 0, and ends within EXIT_S whatever hangs."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self.app = app
        self._deadman = threading.Timer(EXIT_S, _give_up)
        self._deadman.daemon = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal stops; a second Ctrl-C does not wait for open requests."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.stop()

    def stop(self) -> None:
        """Stop as after a signal: for a lifespan that cannot go on. `app.state.on_stop` ends what would wait."""
        if not self.should_exit:
            self.should_exit = True
            if on_stop := getattr(self.app.state, "on_stop", None):
                on_stop()
            self._deadman.start()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a stop. A thread that hangs would keep the interpreter from its exit: then the bound stays."""
        before = set(threading.enumerate())
        try:
            super().run(sockets)
        finally:
            if not _hanging(set(threading.enumerate()) - before):
                self._deadman.cancel()


def _hanging(threads: set[threading.Thread]) -> bool:
    kept = [thread for thread in threads if not thread.daemon]
    for thread in kept:
        thread.join(THREAD_S)
    return any(thread.is_alive() for thread in kept)


def _give_up() -> None:
    print(f"the shutdown took longer than {EXIT_S} s; ending at once", file=sys.stderr, flush=True)
    os._exit(1)


def _allow_connections() -> None:
    """Each is an open file, of which a process usually may have 1024: admission must be what bounds them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # where the system has no such bound
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(app: FastAPI, host: str, port: int) -> None:
    """Serve until SIGTERM, SIGINT or `app.state.stop()`; open requests are closed within SHUTDOWN_S seconds."""
    listener = bind(host, port)
    _allow_connections()
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,  # ours has its lines, too
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="on",
    )
    server = Server(config, app)
    app.state.stop = server.stop
    server.run(sockets=[listener])
