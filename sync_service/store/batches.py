"""Batches: a step's groups, counted as they open, close and are sealed, and cut once."""

from collections import Counter

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service.store.recordset import recordset
from sync_service.store.statement import Statement

_COUNT = Statement("""
UPDATE batches b SET closed = b.closed + c.closed, sealed = b.sealed + c.sealed
FROM json_to_recordset(CAST(:rows AS json)) AS c (step int, closed int, sealed int)
WHERE b.run = :run AND b.step = c.step
RETURNING b.step, b.cut_at IS NULL AND b.closed = b.opened AS all_closed, b.sealed = b.opened AS all_sealed
""")


async def count(connection: AsyncConnection, run: str, closed: Counter[int], sealed: Counter[int]) -> list[Row]:
    """Add to the counts of steps: step, all_closed (and not cut), all_sealed.

    This locks them, so of two who close the last groups the second one sees both.
    """
    rows = [{"step": s, "closed": closed[s], "sealed": sealed[s]} for s in sorted({*closed, *sealed})]
    return await _COUNT.rows(connection, {"run": run, "rows": recordset(rows)})


_LOCK_UNCUT = text("SELECT step FROM batches WHERE run = :run AND cut_at IS NULL ORDER BY step FOR NO KEY UPDATE")


async def lock_uncut(connection: AsyncConnection, run: str) -> list[int]:
    """The steps that are not cut, locked."""
    return list((await connection.execute(_LOCK_UNCUT, {"run": run})).scalars())


_CUT = Statement("""
UPDATE batches b SET cut_at = now()
WHERE b.run = :run AND b.step = ANY(:steps) AND b.cut_at IS NULL AND b.closed = b.opened
    AND (b.opened = :per_step OR EXISTS (SELECT FROM runs r WHERE r.run = :run AND r.state = 'draining'))
RETURNING b.step
""")


async def cut(connection: AsyncConnection, run: str, steps: list[int], per_step: int) -> list[int]:
    """Cut those of `steps` (locked) whose groups are all closed: all that are owed, or when draining all there are."""
    rows = await _CUT.rows(connection, {"run": run, "steps": steps, "per_step": per_step})
    return sorted(row.step for row in rows)


_FULL = text("SELECT count(*) FROM batches WHERE run = :run AND opened = :per_step")


async def full(connection: AsyncConnection, run: str, per_step: int) -> int:
    """How many steps have all their groups opened."""
    return (await connection.execute(_FULL, {"run": run, "per_step": per_step})).scalar_one()


_STATE = text("SELECT state FROM runs WHERE run = :run FOR SHARE")
_LAST_UNCUT = text("""
SELECT step FROM batches WHERE run = :run AND cut_at IS NULL ORDER BY step DESC LIMIT 1 FOR SHARE
""")


async def more_cuts(connection: AsyncConnection, run: str) -> bool:
    """Whether a batch of the run is still to be cut; what says so stands still until this transaction ends."""
    state = (await connection.execute(_STATE, {"run": run})).scalar_one()
    uncut = (await connection.execute(_LAST_UNCUT, {"run": run})).scalar_one_or_none()
    return uncut is not None or state not in ("draining", "finished", "failed", "purging")
