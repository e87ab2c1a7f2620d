"""Where a run stands, in counts."""

from datetime import datetime

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound

_COUNTS = {
    noun: text(f"SELECT state, count(*) AS count FROM {noun} WHERE run = :run GROUP BY state")  # noqa: S608
    for noun in ("groups", "rollouts", "trajectories")
}


async def counts(connection: AsyncConnection, run: str, noun: str) -> dict[str, int]:
    """How many `groups`, `rollouts` or `trajectories` of the run are in each state."""
    return {row.state: row.count for row in await connection.execute(_COUNTS[noun], {"run": run})}


_STREAMS = text("""
SELECT s.role, s.epoch, s.acked_step, s.live_step, s.worker,
    coalesce(s.expires_at > now(), false) AS live,
    count(d.id) FILTER (WHERE d.state IN ('ready', 'leased')) AS ready,
    count(d.id) FILTER (WHERE d.state = 'waiting') AS waiting,
    count(d.id) FILTER (WHERE d.state = 'dead') AS dead,
    min(d.step) FILTER (WHERE d.state <> 'acked') AS next_step,
    (SELECT max(a.acked_at) FROM deliveries a WHERE a.run = s.run AND a.role = s.role AND a.step = s.acked_step)
        AS acked_at,
    (array_agg(d.ready_at ORDER BY d.step) FILTER (WHERE d.state IN ('ready', 'leased')))[1] AS ready_at,
    now() AS at
FROM streams s LEFT JOIN deliveries d ON d.run = s.run AND d.role = s.role AND d.state <> 'acked'
WHERE s.run = :run GROUP BY s.run, s.role ORDER BY s.role DESC
""")


async def streams(connection: AsyncConnection, run: str) -> list[Row]:
    """Each role's stream with its unacked deliveries by state, and when it last acked one and the next was ready.

    NotFound where the run was purged since it was found: every run has a stream.
    """
    rows = list(await connection.execute(_STREAMS, {"run": run}))
    if not rows:
        raise NotFound(f"there is no run {run}")
    return rows


_OPENING = text("""
SELECT b.step, b.opened, b.closed, b.sealed, b.cut_at IS NOT NULL AS cut,
    greatest(min(g.opened_at) FILTER (WHERE g.state = 'open'), max(g.closed_at)) AS closing_since,
    max(g.deadline) FILTER (WHERE g.state = 'open') AS closing_until,
    min(g.closed_at) FILTER (WHERE g.scoring = 'pending') AS scoring_since,
    max(g.score_deadline) FILTER (WHERE g.scoring = 'pending') AS scoring_until
FROM batches b JOIN groups g ON g.run = b.run AND g.step = b.step
WHERE b.run = :run AND (b.cut_at IS NULL OR b.sealed < b.opened)
GROUP BY b.run, b.step ORDER BY b.step
""")


async def unfinished_batches(connection: AsyncConnection, run: str) -> list[Row]:
    """Batches that are not cut, or not sealed: counts, since when nothing closed or was sealed, and until when."""
    return list(await connection.execute(_OPENING, {"run": run}))


_LAST_STEP = text("""
SELECT b.step, (SELECT max(g.opened_at) FROM groups g WHERE g.run = b.run AND g.step = b.step) AS opened_at
FROM batches b WHERE b.run = :run AND b.opened = :per_step ORDER BY b.step DESC LIMIT 1
""")


async def last_full_step(connection: AsyncConnection, run: str, per_step: int) -> Row | None:
    """The highest step of which every group is opened, and when the last of them was: step, opened_at."""
    return (await connection.execute(_LAST_STEP, {"run": run, "per_step": per_step})).one_or_none()


_PAUSED_AT = text("SELECT paused_at FROM runs WHERE run = :run")


async def paused_at(connection: AsyncConnection, run: str) -> datetime | None:
    """When the pause began that the run is in."""
    return (await connection.execute(_PAUSED_AT, {"run": run})).scalar_one_or_none()


_DEAD = text("""
SELECT role, step, attempts, error, ready_at AS since FROM deliveries
WHERE run = :run AND state = 'dead' ORDER BY step, role
""")


async def dead(connection: AsyncConnection, run: str) -> list[Row]:
    """Deliveries that need an operator, and since when."""
    return list(await connection.execute(_DEAD, {"run": run}))


_TRAFFIC = text("SELECT bytes_received FROM traffic WHERE run = :run")


async def bytes_received(connection: AsyncConnection, run: str) -> int:
    """Bytes of bodies that groups, rollouts and trajectories came in."""
    return (await connection.execute(_TRAFFIC, {"run": run})).scalar_one_or_none() or 0
