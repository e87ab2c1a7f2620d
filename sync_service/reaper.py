"""The reaper: makes the moves that only time causes, so that nothing waits for ever.

Consumes nothing and waits for a clock; what it does unblocks planners (groups that close), executors (groups that are
sealed) and whoever waits for a lease. One process at a time sweeps, by an advisory lock; the others go on to the next
round. Submissions settle their own groups' deadlines as well, so its pace changes no result.
"""

import asyncio

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import TandemError
from sync_service import store
from sync_service.database import Database
from sync_service.doorbell import Doorbell
from sync_service.operations import lifecycle, streams

log = structlog.get_logger()

BATCH = 200
_LOCK_KEY = 0x7A_4D_EA
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:key)")


async def sweep(database: Database) -> set[str]:
    """Close, seal, expire and orphan all that is past its deadline; the runs in which anything moved."""
    moved: set[str] = set()
    while len(found := await database.transaction(_close_groups)) == BATCH:
        moved.update(found)
    moved.update(found)
    moved |= await database.transaction(_expire_leases)
    await database.transaction(_orphan)
    return moved


async def _alone(connection: AsyncConnection) -> bool:
    return (await connection.execute(_TRY_LOCK, {"key": _LOCK_KEY})).scalar_one()


async def _close_groups(connection: AsyncConnection) -> list[str]:
    if not await _alone(connection):
        return []
    groups = await store.groups.lock_due(connection, BATCH)
    await lifecycle.advance(connection, groups)
    return [group.run for group in groups]


async def _expire_leases(connection: AsyncConnection) -> set[str]:
    if not await _alone(connection):
        return set()
    expired = await store.streams.lock_expired(connection, BATCH)
    for row in expired:
        stream = await store.streams.lock(connection, row.run, row.role)
        await streams.vacate(connection, stream, error=streams.EXPIRED)
    return {row.run for row in expired}


async def _orphan(connection: AsyncConnection) -> None:
    if await _alone(connection):
        await store.trajectories.orphan_due(connection)


async def run(database: Database, doorbell: Doorbell, every_s: float) -> None:
    """Sweep for ever. While the database is away it says so once a round, and goes on."""
    while True:
        try:
            doorbell.ring(await sweep(database))
        except (SQLAlchemyError, TandemError) as error:
            log.warning("the sweep failed", error=repr(error))
        await asyncio.sleep(every_s)
