"""How many bytes of bodies each run has received: counted in memory, added to the database once a second.

It is a figure for people, so a crash may lose its last second.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

import structlog
from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError

from shared.errors import TandemError
from sync_service import store
from sync_service.database import Database
from sync_service.metrics import SyncMetrics

log = structlog.get_logger()

FLUSH_S = 1.0


class Traffic:
    """The counts of this process."""

    def __init__(self, database: Database, metrics: SyncMetrics) -> None:
        self._database = database
        self._metrics = metrics
        self._counted: Counter[str] = Counter()

    def count(self, request: Request, runs: Sequence[str]) -> None:
        """Count the body of `request`, shared out among its items; `runs` has the run of each."""
        size = request.state.body_bytes
        self._metrics.bytes_received.inc(size)
        for run, items in Counter(runs).items():
            self._counted[run] += size * items // len(runs)

    def unflushed(self, run: str) -> int:
        """What is counted here and not yet in the database."""
        return self._counted[run]

    async def flush(self) -> None:
        """Add what was counted to the database; while that is away, keep it."""
        counted, self._counted = self._counted, Counter()
        try:
            await self._database.transaction(lambda connection: store.runs.add_traffic(connection, counted))
        except (SQLAlchemyError, TandemError) as error:
            self._counted.update(counted)
            log.warning("traffic is not counted yet", error=repr(error))

    async def run(self) -> None:
        """Consumes what was counted; waits FLUSH_S; produces the figures of the database."""
        while True:
            await asyncio.sleep(FLUSH_S)
            if self._counted:
                await self.flush()
