"""What each page reads of a run, timed on the database itself: no cache, no template, no HTTP."""

import statistics
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service import store
from sync_service.config import SyncConfig
from sync_service.dashboard import panels
from sync_service.database import Database
from sync_service.operations import lineage, series, verdict
from sync_service.service import Service
from tests.benchmarks.sync.history import Past

NEWEST = 2**63 - 1
LATEST = 2**31 - 1
WARM = 2
"""Reads that are not counted: a connection's first one plans its statements."""
Read = Callable[[AsyncConnection], Awaitable[Any]]


async def timed(database_url: str, past: Past, samples: int) -> dict[str, float]:
    """The 95th percentile of each page's reading, in ms."""
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    database = Database(url, 1)
    try:
        found = {}
        for name, read in (await _reads(database, url, past)).items():
            times = [await _time(database, read) for _ in range(WARM + samples)][WARM:]
            found[name] = statistics.quantiles(times, n=20, method="inclusive")[-1]
        return found
    finally:
        await database.close()


async def _time(database: Database, read: Read) -> float:
    started = time.perf_counter()
    await database.read(read)
    return 1000 * (time.perf_counter() - started)


async def _reads(database: Database, url: str, past: Past) -> dict[str, Read]:
    run, middle = past.run, max(1, past.steps // 2)
    config = SyncConfig(database_url=url)
    service = cast(Service, SimpleNamespace(config=config, doorbell=SimpleNamespace(connected=True)))
    some = (await database.read(lambda c: store.steps.rollouts(c, run, middle, 1)))[0].id

    async def alignment(connection: AsyncConnection) -> None:
        await series.calls(connection, await series.curves(connection, run, series.ALIGNMENT))

    return {
        "runs": lambda c: store.overview.runs(c, None, 0, 51),
        "overview": lambda c: panels.read(c, service, run),
        "verdict": lambda c: verdict.verdict(c, run, config.stall_s, config.worker_lost_s),
        "learning": lambda c: series.curves(c, run, series.LEARNING),
        "alignment": alignment,
        "steps": lambda c: store.steps.below(c, run, LATEST, 50),
        "step": lambda c: lineage.step_groups(c, run, middle),
        "rollout": lambda c: lineage.tree(c, run, some),
        "events": lambda c: store.overview.events(c, run, NEWEST, 50),
        "events, filtered": lambda c: store.overview.events(c, run, NEWEST, 50, part="nowhere"),
    }
