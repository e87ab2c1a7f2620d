"""Whether the Ray cluster is still there.

Ray itself tells of a head that is gone by ending this process a minute later, without a line in our log.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

CONNECT_S = 2.0
POLL_S = 2.0
SILENT_S = 10.0
"""How long a part of the cluster may be out of reach before it counts as gone."""


class Ground(Protocol):
    """What the parts of a policy stand on."""

    async def died(self) -> str:
        """Wait until it is gone, and say why."""
        ...

    async def release(self) -> None:
        """One part less stands on it."""
        ...


class ThisMachine:
    """The ground of processes that need no cluster."""

    async def died(self) -> str:
        """Does not return."""
        await asyncio.Event().wait()
        raise AssertionError

    async def release(self) -> None:
        """There is nothing to do."""


async def gone(parts: Mapping[str, tuple[str, int]]) -> str:
    """Wait until one of `parts`, by name the place where it listens, is out of reach for too long, and say which."""
    heard = dict.fromkeys(parts, time.monotonic())
    while True:
        for name, (host, port) in parts.items():
            if await _reached(host, port):
                heard[name] = time.monotonic()
            elif time.monotonic() - heard[name] >= SILENT_S:
                return f"{name} at {host}:{port} is gone: nothing has listened there for {SILENT_S:g} s"
        await asyncio.sleep(POLL_S)


async def _reached(host: str, port: int) -> bool:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return True
    return False
