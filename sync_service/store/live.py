"""What goes on now, in counts and ages, for the metrics: of everything that is not final.

Each statement reads through a partial index or a small table: what is final, however much, costs nothing.
"""

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

MOST_RUNS = 100
"""Runs with series of their own, the newest first: a bound for whoever stores them."""

_STATES = text("SELECT state, count(*) AS count FROM runs GROUP BY state")


async def run_states(connection: AsyncConnection) -> list[Row]:
    """How many runs are in each state."""
    return list(await connection.execute(_STATES))


_RUNS = text("""
SELECT run, state, CAST(spec ->> 'steps' AS int) AS steps, CAST(spec ->> 'staleness' AS int) AS staleness
FROM runs WHERE state IN ('declared', 'running', 'paused', 'draining') ORDER BY declared_at DESC LIMIT :most
""")


async def runs(connection: AsyncConnection) -> list[Row]:
    """The runs that are not over, MOST_RUNS at most, with what their specs bound: steps, staleness."""
    return list(await connection.execute(_RUNS, {"most": MOST_RUNS}))


_GROUPS = text("""
SELECT run, state, count(*) AS count,
    CAST(extract(epoch FROM now() - min(opened_at)) AS float) AS age_s,
    CAST(extract(epoch FROM now() - min(due)) AS float) AS overdue_s
FROM (
    SELECT run, 'open' AS state, opened_at, deadline AS due FROM groups WHERE state = 'open'
    UNION ALL
    SELECT run, 'scoring', opened_at, score_deadline FROM groups WHERE state = 'complete' AND scoring = 'pending'
) AS unsealed
WHERE run = ANY(:runs) GROUP BY run, state
""")


async def groups(connection: AsyncConnection, runs: list[str]) -> list[Row]:
    """Groups that are not sealed, by what they wait for: how many, the oldest one's age, and how far over its time."""
    return list(await connection.execute(_GROUPS, {"runs": runs}))


_DELIVERIES = text("""
SELECT run, role, state, count(*) AS count, CAST(extract(epoch FROM now() - min(ready_at)) AS float) AS ready_s
FROM deliveries WHERE state <> 'acked' AND run = ANY(:runs) GROUP BY run, role, state
""")


async def deliveries(connection: AsyncConnection, runs: list[str]) -> list[Row]:
    """Deliveries that are not acked, by state: how many, and since when the oldest of them has been ready."""
    return list(await connection.execute(_DELIVERIES, {"runs": runs}))


_STREAMS = text("""
SELECT s.run, s.role, s.epoch, s.acked_step, s.live_step, coalesce(s.expires_at > now(), false) AS held,
    p.updates, CAST(extract(epoch FROM now() - p.confirmed_at) AS float) AS age_s
FROM streams s LEFT JOIN LATERAL (
    SELECT updates, confirmed_at FROM policies
    WHERE run = s.run AND role = s.role AND confirmed_at IS NOT NULL AND NOT superseded
    ORDER BY epoch DESC, step DESC LIMIT 1
) AS p ON true
WHERE s.run = ANY(:runs)
""")


async def streams(connection: AsyncConnection, runs: list[str]) -> list[Row]:
    """Each role's stream, with the version that its samplers confirmed last (null: none yet) and that one's age."""
    return list(await connection.execute(_STREAMS, {"runs": runs}))


_STALLS = text("SELECT run, code, count(*) AS count FROM stalls WHERE run = ANY(:runs) GROUP BY run, code")


async def stalls(connection: AsyncConnection, runs: list[str]) -> list[Row]:
    """Stalls and lost workers that go on, by code."""
    return list(await connection.execute(_STALLS, {"runs": runs}))
