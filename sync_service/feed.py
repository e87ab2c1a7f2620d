"""The feed of events: numbers what is committed, reads it in order, and bounds how many read at once."""

import asyncio
from collections import Counter

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import Overloaded
from shared.schemas.events import Event
from sync_service import store
from sync_service.database import Database
from sync_service.doorbell import Doorbell
from sync_service.metrics import SyncMetrics

BATCH = 500
AT_ONCE = 4
"""Readers that look into the database at once: the others wait here, and not before the writers of the pool."""


class Feed:
    """The readers of this process. `per_key`: how many streams and held polls one key may have open at once."""

    def __init__(self, database: Database, doorbell: Doorbell, metrics: SyncMetrics, per_key: int) -> None:
        self._database = database
        self._doorbell = doorbell
        self._metrics = metrics
        self._per_key = per_key
        self._open: Counter[str | None] = Counter()
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._numbering = asyncio.Lock()
        self._asked = self._answered = 0
        """How many have asked for numbers, and how many of them a round that began after their asking has served."""

    async def number(self) -> None:
        """Give positions to all that is committed. One reader does it for all who wait, on one connection."""
        self._asked += 1
        mine = self._asked
        async with self._numbering:
            if mine <= self._answered:
                return
            waiting = self._asked
            await self._number()
            self._answered = waiting

    async def _number(self) -> None:
        if not await self._database.read(store.events.unnumbered):
            return
        while len(numbered := await self._database.transaction(_number)) == BATCH:
            self._metrics.count_events(numbered)
        self._metrics.count_events(numbered)

    async def after(self, position: int, run: str | None, limit: int) -> list[Event]:
        """Events above `position`, of one run if it is given, with what was committed until now; none at the stop.

        A reader who goes is cancelled, but not the look into the database, which could lose its connection to nobody.
        """
        return await asyncio.shield(asyncio.ensure_future(self._after(position, run, limit)))

    async def _after(self, position: int, run: str | None, limit: int) -> list[Event]:
        await self.number()
        async with self._reading:
            if self._doorbell.stopping:
                return []
            return await self._database.read(lambda connection: store.events.after(connection, position, run, limit))

    def take_seat(self, key: str | None) -> None:
        """One more reader under this key; Overloaded where it has as many as it may. `leave` gives the seat back."""
        if self._open[key] >= self._per_key:
            raise Overloaded(f"this key has {self._per_key} event streams open, and may have no more")
        self._open[key] += 1

    def leave(self, key: str | None) -> None:
        """One reader less."""
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]


async def _number(connection: AsyncConnection) -> list:
    return await store.events.number(connection, BATCH)
