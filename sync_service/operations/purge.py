"""Purge: a run that is over leaves the database, bit by bit beside the traffic of the others.

Once a run is `purging` nothing is taken for it any more. Each bit is a transaction of its own, so no lock is held for
long, and a purge that is cut short goes on where it was.
"""

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import InvalidTransition
from sync_service import store
from sync_service.operations import runs

ROWS = 2000
"""About how many rows a transaction deletes."""
DAY_S = 86_400.0


async def bit(connection: AsyncConnection) -> int:
    """Delete some of the next run that is purged; how many rows, 0 where there is none."""
    name = await store.purge.next_run(connection)
    if name is None:
        return 0
    spec = (await store.runs.find(connection, name)).spec
    groups = max(1, ROWS // (5 * spec.rollouts_per_group))  # a rollout and about four trajectories each
    return (
        await store.purge.delete_groups(connection, name, groups)
        or await store.purge.delete_loose(connection, name, ROWS)
        or await store.purge.delete_rest(connection, name)
    )


async def retire(connection: AsyncConnection, keep_days: float) -> None:
    """Purge the runs that are over and older than that."""
    for name in await store.purge.outlived(connection, keep_days * DAY_S):
        try:
            await runs.move(connection, name, "purging", None, "retention")
        except InvalidTransition:  # its trainer took it up again in between
            continue
