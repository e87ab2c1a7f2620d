"""Waiting for a condition in a test: polled, and bounded."""

import asyncio
import inspect
from collections.abc import Callable

LIMIT_S = 60.0


async def until(condition: Callable[[], object], limit_s: float = LIMIT_S, every_s: float = 0.002) -> None:
    """Returns once `condition()`, which may be a coroutine function, is true; TimeoutError after `limit_s`."""
    async with asyncio.timeout(limit_s):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(every_s)
