"""Deleting a run, some rows at a time: each call is a short transaction's worth."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_NEXT = text("SELECT run FROM runs WHERE state = 'purging' ORDER BY run LIMIT 1")


async def next_run(connection: AsyncConnection) -> str | None:
    """A run that is to be deleted."""
    return (await connection.execute(_NEXT)).scalar_one_or_none()


_LOCK_GROUPS = text("""
SELECT id FROM groups WHERE run = :run ORDER BY step, index LIMIT :limit FOR UPDATE
""")
_DELETE_GROUPS = (
    text("DELETE FROM trajectories WHERE group_id = ANY(CAST(:groups AS uuid[]))"),
    text("DELETE FROM rollouts WHERE group_id = ANY(CAST(:groups AS uuid[]))"),
    text("DELETE FROM groups WHERE id = ANY(CAST(:groups AS uuid[]))"),
)


async def delete_groups(connection: AsyncConnection, run: str, limit: int) -> int:
    """Delete up to `limit` groups with all that is of them; how many rows. The lock holds off who submits to them."""
    groups = list((await connection.execute(_LOCK_GROUPS, {"run": run, "limit": limit})).scalars())
    if not groups:
        return 0
    return sum([(await connection.execute(delete, {"groups": groups})).rowcount for delete in _DELETE_GROUPS])


_DELETE_LOOSE = tuple(
    text(f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE run = :run LIMIT :limit))")  # noqa: S608
    for table in ("trajectories", "events")
)


async def delete_loose(connection: AsyncConnection, run: str, limit: int) -> int:
    """Delete up to `limit` trajectories without a group, and as many events; how many rows."""
    found = {"run": run, "limit": limit}
    return sum([(await connection.execute(delete, found)).rowcount for delete in _DELETE_LOOSE])


_LAST = (
    "trajectories",
    "deliveries",
    "batches",
    "policies",
    "streams",
    "workers",
    "stalls",
    "traffic",
    "events",
    "runs",
)
_LOCK_RUN = text("SELECT FROM runs WHERE run = :run FOR UPDATE")
_DELETE_LAST = tuple(text(f"DELETE FROM {table} WHERE run = :run") for table in _LAST)  # noqa: S608


async def delete_rest(connection: AsyncConnection, run: str) -> int:
    """Delete what is left, which is a few rows a step, and the run itself; how many rows.

    Trajectories, too: who found the run before it was `purging` may have submitted some since, and is waited for here.
    """
    await connection.execute(_LOCK_RUN, {"run": run})
    return sum([(await connection.execute(delete, {"run": run})).rowcount for delete in _DELETE_LAST])


_OUTLIVED = text("""
SELECT r.run FROM runs r
WHERE r.state IN ('finished', 'failed') AND now() - make_interval(secs => :keep_s) > coalesce(
    (SELECT e.at FROM events e WHERE e.run = r.run ORDER BY e.position DESC NULLS FIRST LIMIT 1), r.declared_at)
ORDER BY r.run
""")


async def outlived(connection: AsyncConnection, keep_s: float) -> list[str]:
    """Runs that are over, and in which nothing has happened for `keep_s`."""
    return list((await connection.execute(_OUTLIVED, {"keep_s": keep_s})).scalars())
