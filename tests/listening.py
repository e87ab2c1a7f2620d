"""An app in this process, on a port of this machine: for what an ASGI transport does not carry, as streams."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext

import uvicorn
from starlette.types import ASGIApp

from tests.waiting import until


@asynccontextmanager
async def listening(app: ASGIApp, port: int = 0) -> AsyncGenerator[str]:
    """The URL of `app`, whose lifespan runs already; `port` 0 is a free one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error", timeout_graceful_shutdown=1))
    server.capture_signals = nullcontext  # ty: ignore[invalid-assignment]
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
