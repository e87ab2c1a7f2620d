"""The life of a server: one root task owns everything, and its first fault ends the process.

The app answers `/healthz` at once, while the root task still starts a policy, say. A fault at start and a loop that
dies an hour later are the same thing here: `app.state.fault` is set, and the process is asked to stop.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog
from fastapi import FastAPI

log = structlog.get_logger()

STOP_S = 15.0
"""How long the root task may take to put its children and connections away."""


@asynccontextmanager
async def rooted(app: FastAPI, root: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
    """Run `root()` for as long as the app lives; it returns only by being cancelled or by a fault."""
    task = asyncio.create_task(_watched(app, root), name="root")
    try:
        yield
    finally:
        task.cancel()
        _, running = await asyncio.wait({task}, timeout=STOP_S)
        if running:
            log.error("stop-timed-out", seconds=STOP_S)


async def _watched(app: FastAPI, root: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await root()
    except Exception as error:  # noqa: BLE001 the outermost boundary of every loop of the process
        app.state.fault = first(error)
        getattr(app.state, "stop", lambda: None)()


def first(error: BaseException) -> BaseException:
    """The first fault in a tree of exception groups: the others are its consequences."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
