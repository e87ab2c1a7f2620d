"""Batches: a step's groups, counted as they open, close and are sealed, and cut once."""

from collections import Counter

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service.store.recordset import recordset

_OPENED = text("""
INSERT INTO batches AS b (run, step, opened) VALUES (:run, :step, 1)
ON CONFLICT (run, step) DO UPDATE SET opened = b.opened + 1
RETURNING opened
""")


async def count_opened(connection: AsyncConnection, run: str, step: int) -> int:
    """How many groups of the step are opened, the one that is opened now included."""
    return (await connection.execute(_OPENED, {"run": run, "step": step})).scalar_one()


_COUNT = text("""
UPDATE batches b SET closed = b.closed + c.closed, sealed = b.sealed + c.sealed
FROM json_to_recordset(CAST(:rows AS json)) AS c (step int, closed int, sealed int)
WHERE b.run = :run AND b.step = c.step
""")


async def count(connection: AsyncConnection, run: str, closed: Counter[int], sealed: Counter[int]) -> None:
    """Add to the counts of steps; this locks them, so of two who close the last groups the second sees both."""
    rows = [{"step": s, "closed": closed[s], "sealed": sealed[s]} for s in sorted({*closed, *sealed})]
    await connection.execute(_COUNT, {"run": run, "rows": recordset(rows)})


_LOCK_UNCUT = text("SELECT step FROM batches WHERE run = :run AND cut_at IS NULL ORDER BY step FOR NO KEY UPDATE")


async def lock_uncut(connection: AsyncConnection, run: str) -> list[int]:
    """The steps that are not cut, locked."""
    return list((await connection.execute(_LOCK_UNCUT, {"run": run})).scalars())


_CUT = text("""
UPDATE batches b SET cut_at = now()
WHERE b.run = :run AND b.step = ANY(:steps) AND b.cut_at IS NULL AND b.closed = b.opened
    AND (b.opened = :per_step OR EXISTS (SELECT FROM runs r WHERE r.run = :run AND r.state = 'draining'))
RETURNING b.step
""")


async def cut(connection: AsyncConnection, run: str, steps: list[int], per_step: int) -> list[int]:
    """Cut those of `steps` (locked) whose groups are all closed: all that are owed, or when draining all there are."""
    rows = await connection.execute(_CUT, {"run": run, "steps": steps, "per_step": per_step})
    return sorted(rows.scalars())


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
    return uncut is not None or state not in ("draining", "finished", "failed")
