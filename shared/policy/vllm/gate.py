"""Turns pass together; a change of weights passes alone, between them."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager


class Gate:
    """A lock with two sides. Turns that come while a change waits or runs are held back, so that it gets its turn."""

    def __init__(self) -> None:
        self._inside = 0
        self._open, self._empty = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._empty.set()
        self._change = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Inside, no weights change."""
        while not self._open.is_set():
            await self._open.wait()
        with self._counted():
            yield

    @asynccontextmanager
    async def change(self, timeout_s: float) -> AsyncGenerator[None]:
        """Inside, no turn runs. TimeoutError: those that ran did not end in time."""
        async with self._change:
            self._open.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), timeout_s)
                yield
            finally:
                self._open.set()

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()
