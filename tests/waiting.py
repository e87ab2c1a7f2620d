"""Waiting for a condition in a test: polled, and bounded."""

import asyncio
from collections.abc import Callable

LIMIT_S = 60.0


async def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Returns once `condition()` is true; TimeoutError after `limit_s`."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 what is waited for belongs to other parts, which set no event of ours
            await asyncio.sleep(0.002)
