"""Run an app under uvicorn: a clear line where the port is taken, a bounded shutdown, structured logs."""

import logging
import socket

import structlog
import uvicorn
from fastapi import FastAPI

from shared.errors import UserError

SHUTDOWN_S = 10


def configure_logs() -> None:
    """One JSON line an event, to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(file=None),
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; UserError says which port is in use."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror}; choose another port") from None
    return listener


def serve(app: FastAPI, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; open streams are closed within SHUTDOWN_S seconds."""
    listener = bind(host, port)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=SHUTDOWN_S, lifespan="on"
    )
    uvicorn.Server(config).run(sockets=[listener])
