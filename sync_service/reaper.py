"""The reaper: makes the moves that only time causes, so that nothing waits for ever.

Consumes nothing and waits for a clock; what it does unblocks planners (groups that close), executors (groups that are
sealed) and whoever waits for a lease. One process at a time sweeps, by an advisory lock; the others go on to the next
round. Submissions settle their own groups' deadlines as well, so its pace changes no result.

Each round it also numbers events, tells of stalls, and deletes some of a run that is purged.
"""

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import TandemError
from sync_service import store
from sync_service.database import Database
from sync_service.operations import lifecycle, purge, stalls, streams
from sync_service.service import Service

log = structlog.get_logger()

BATCH = 200
LOOK_S = 5.0
"""How often it looks for stalls, and for runs that have been kept long enough."""
PURGE_S = 0.5
"""How long a round may delete: deadlines must not wait for a purge."""


async def sweep(database: Database) -> set[str]:
    """Close, seal, expire and orphan all that is past its deadline; the runs in which anything moved."""
    moved: set[str] = set()
    while len(found := await database.transaction(_close_groups)) == BATCH:
        moved.update(found)
    moved.update(found)
    moved |= await database.transaction(_expire_leases)
    await database.transaction(_orphan)
    return moved


async def _close_groups(connection: AsyncConnection) -> list[str]:
    if not await store.locks.try_sweep(connection):
        return []
    groups = await store.groups.lock_due(connection, BATCH)
    await lifecycle.advance(connection, groups)
    return [group.run for group in groups]


async def _expire_leases(connection: AsyncConnection) -> set[str]:
    if not await store.locks.try_sweep(connection):
        return set()
    expired = await store.streams.lock_expired(connection, BATCH)
    for row in expired:
        stream = await store.streams.lock(connection, row.run, row.role)
        await streams.vacate(connection, stream, error=streams.EXPIRED)
    return {row.run for row in expired}


async def _orphan(connection: AsyncConnection) -> None:
    if await store.locks.try_sweep(connection):
        await store.trajectories.orphan_due(connection)


async def detect(service: Service) -> set[str]:
    """Tell which stalls began and ended, and which workers are lost; the runs in which there was something to tell."""
    config, database = service.config, service.database

    async def look(connection: AsyncConnection, run: str) -> bool:
        alone = await store.locks.try_sweep(connection)
        return alone and await stalls.detect(connection, run, config.stall_s, config.worker_lost_s)

    runs = await database.read(store.stalls.runs)
    return {run for run in runs if await database.transaction(lambda connection, run=run: look(connection, run))}


async def retire(service: Service) -> None:
    """Purge runs that the configuration does not keep any longer."""
    if keep_days := service.config.keep_runs_days:
        await service.database.transaction(lambda connection: purge.retire(connection, keep_days))


async def delete(service: Service, for_s: float = PURGE_S) -> int:
    """Delete bits of runs that are purged, for so long; how many rows."""
    clock = asyncio.get_running_loop().time
    end, rows = clock() + for_s, 0
    while clock() < end and (deleted := await service.database.transaction(_delete_bit)):
        rows += deleted
    service.metrics.purged.inc(rows)
    return rows


async def _delete_bit(connection: AsyncConnection) -> int:
    return await purge.bit(connection) if await store.locks.try_sweep(connection) else 0


async def run(service: Service) -> None:
    """A round each `reaper_s`, for ever. While the database is away it says so once a round, and goes on."""
    clock = asyncio.get_running_loop().time
    looked = -LOOK_S
    while True:
        await asyncio.sleep(service.config.reaper_s)
        try:
            moved = await sweep(service.database)
            if clock() - looked >= LOOK_S:
                looked = clock()
                moved |= await detect(service)
                await retire(service)
            await service.feed.number()
            service.doorbell.ring(moved)
            await delete(service)
            service.metrics.rounds.labels("done").inc()
        except (SQLAlchemyError, TandemError) as error:
            log.warning("the sweep failed", error=repr(error))
            service.metrics.rounds.labels("failed").inc()
