"""What the dashboard shows of a run as a whole. Each statement reads small tables, or a bounded part of a large one."""

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

_RUNS = text("""
SELECT r.run, r.state, r.reason, r.declared_at, CAST(r.spec ->> 'steps' AS int) AS steps,
    (SELECT min(s.acked_step) FROM streams s WHERE s.run = r.run) AS step,
    (SELECT e.at FROM events e WHERE e.run = r.run AND e.position IS NOT NULL ORDER BY e.position DESC LIMIT 1)
        AS moved_at,
    ARRAY(SELECT t.code FROM stalls t WHERE t.run = r.run ORDER BY t.since) AS stalls,
    now() AS at
FROM runs r WHERE CAST(:only AS text) IS NULL OR r.run = :only
ORDER BY r.state IN ('finished', 'failed', 'purging'), r.declared_at DESC, r.run LIMIT :limit OFFSET :skip
""")


async def runs(connection: AsyncConnection, only: str | None, skip: int, limit: int) -> list[Row]:
    """Runs, those that go on first, then the newest; of one alone, where `only` names it."""
    return list(await connection.execute(_RUNS, {"only": only, "skip": skip, "limit": limit}))


_FUNNEL = text("""
SELECT g.state, g.scoring, g.reason, true AS cut, true AS consumed,
    count(*) AS groups, sum(g.final) AS final, sum(g.reported) AS reported
FROM groups g WHERE g.run = :run AND g.step <= :consumed GROUP BY 1, 2, 3
UNION ALL
SELECT g.state, g.scoring, g.reason, b.cut_at IS NOT NULL, false, count(*), sum(g.final), sum(g.reported)
FROM groups g JOIN batches b ON b.run = g.run AND b.step = g.step
WHERE g.run = :run AND g.step > :consumed GROUP BY 1, 2, 3, 4
""")  # what is acked is cut: of a long run, few groups need the look at their batch


async def funnel(connection: AsyncConnection, run: str, consumed: int) -> list[Row]:
    """The groups of the run, counted by how far each is; `consumed`: the highest step that every role has acked."""
    return list(await connection.execute(_FUNNEL, {"run": run, "consumed": consumed}))


_OLDEST = text("""
SELECT id AS "group", step, index, closed_at FROM groups
WHERE run = :run AND step > :consumed AND state = 'complete' ORDER BY closed_at LIMIT 1
""")


async def oldest_unconsumed(connection: AsyncConnection, run: str, consumed: int) -> Row | None:
    """The complete group that has waited longest for a role to train on it: group, step, index, closed_at."""
    return (await connection.execute(_OLDEST, {"run": run, "consumed": consumed})).one_or_none()


_VISIBLE = text("""
SELECT p.role, count(*) AS groups,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.confirmed_at - g.closed_at)::float8) AS p50,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM p.confirmed_at - g.closed_at)::float8) AS p99
FROM streams s
JOIN policies p ON p.run = s.run AND p.role = s.role AND NOT p.superseded AND p.confirmed_at IS NOT NULL
    AND p.step > s.live_step - :steps AND p.step <= s.live_step
JOIN groups g ON g.run = p.run AND g.step = p.step AND g.state = 'complete' AND g.closed_at <= p.confirmed_at
WHERE s.run = :run GROUP BY p.role
""")


async def reward_to_visible(connection: AsyncConnection, run: str, steps: int) -> dict[str, Row]:
    """By role, seconds from a group's last reward to samplers that hold weights trained on it; of the last `steps`."""
    return {row.role: row for row in await connection.execute(_VISIBLE, {"run": run, "steps": steps})}


_LIVE = text("""
SELECT p.role, p.epoch, p.step, p.updates, p.checksum, p.worker, p.confirmed_at
FROM streams s CROSS JOIN LATERAL (
    SELECT * FROM policies p
    WHERE p.run = s.run AND p.role = s.role AND NOT p.superseded AND p.confirmed_at IS NOT NULL
    ORDER BY p.epoch DESC, p.step DESC LIMIT 1
) AS p
WHERE s.run = :run ORDER BY p.role DESC
""")


async def live_versions(connection: AsyncConnection, run: str) -> list[Row]:
    """The version that each role's samplers hold."""
    return list(await connection.execute(_LIVE, {"run": run}))


_OPEN = text("""
SELECT id AS "group", step, index, final, reported, opened_at, deadline FROM groups
WHERE run = :run AND step > :consumed AND state = 'open' ORDER BY deadline, step, index LIMIT :limit
""")


async def open_groups(connection: AsyncConnection, run: str, consumed: int, limit: int) -> list[Row]:
    """Open groups, those first whose deadline is next."""
    return list(await connection.execute(_OPEN, {"run": run, "consumed": consumed, "limit": limit}))


_UNACKED = text("""
SELECT role, step, state, attempts, coalesce(CASE WHEN state = 'leased' THEN leased_at END, ready_at) AS since
FROM deliveries WHERE run = :run AND state NOT IN ('acked', 'dead') ORDER BY step, role DESC LIMIT :limit
""")


async def unacked(connection: AsyncConnection, run: str, limit: int) -> list[Row]:
    """The deliveries that are next, and since when each is leased or ready; dead ones wait for an operator."""
    return list(await connection.execute(_UNACKED, {"run": run, "limit": limit}))


SCANNED = 20_000
"""Events of one run that a page with filters looks through, at most; the next page goes on below them."""

_FLOOR = text("""
SELECT position FROM events WHERE run = :run AND position < :before ORDER BY position DESC OFFSET :scanned LIMIT 1
""")
_EVENTS = text("""
SELECT position, run, kind, at, body FROM events
WHERE run = :run AND position < :before AND position >= :floor
    AND (CAST(:kind AS text) IS NULL OR kind = :kind)
    AND (CAST(:role AS text) IS NULL OR body ->> 'role' = :role)
    AND (CAST(:part AS text) IS NULL OR strpos(lower(body::text), lower(:part)) > 0)
ORDER BY position DESC LIMIT :limit
""")


async def events(
    connection: AsyncConnection,
    run: str,
    before: int,
    limit: int,
    *,
    kind: str | None = None,
    role: str | None = None,
    part: str | None = None,
) -> tuple[list[Row], int | None]:
    """Events below a position that fit, the newest first; and below which position to go on, None at the end."""
    floor = (await connection.execute(_FLOOR, {"run": run, "before": before, "scanned": SCANNED})).scalar_one_or_none()
    found = {"run": run, "before": before, "floor": floor or 0, "kind": kind, "role": role, "part": part}
    rows = list(await connection.execute(_EVENTS, {**found, "limit": limit}))
    return rows, rows[-1].position if len(rows) == limit else floor
