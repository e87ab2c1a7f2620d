"""An app in this process, on a port of this machine: for what an ASGI transport does not carry, as streams."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext

import uvicorn
from starlette.types import ASGIApp

from tests.waiting import until


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncGenerator[str]:
    """The URL of `app`, whose lifespan runs already."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error", timeout_graceful_shutdown=1))
    server.capture_signals = nullcontext  # ty: ignore[invalid-assignment]
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
