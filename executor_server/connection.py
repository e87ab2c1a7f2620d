"""Work that ends when the client who asked for it has gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, which is cancelled when the client closes its connection first: then None."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        gone.cancel()
        task.cancel()


async def _disconnected(request: Request) -> None:
    """Returns when the client has gone; the body has been read, so nothing else can arrive."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
