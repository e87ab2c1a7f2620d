"""Background tasks, ended for certain."""

import asyncio
from collections.abc import Iterable

ASK_AGAIN_S = 0.25


async def end(tasks: Iterable[asyncio.Task]) -> None:
    """Cancel until they have ended: a library that is connecting may swallow one cancellation (redis-py does)."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=ASK_AGAIN_S)
