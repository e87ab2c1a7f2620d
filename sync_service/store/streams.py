"""Streams: who holds a role's deliveries, under which epoch, and how far it has come."""

from dataclasses import dataclass

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from sync_service.store import runs
from sync_service.store.runs import Run
from sync_service.store.statement import Statement

_INSERT = text("INSERT INTO streams (run, role) VALUES (:run, :role) ON CONFLICT (run, role) DO NOTHING")


async def insert(connection: AsyncConnection, run: str, roles: tuple[str, ...]) -> None:
    """One stream for each role that trains."""
    await connection.execute(_INSERT, [{"run": run, "role": role} for role in roles])


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that this transaction has locked, with its run. `live`: its lease is, by the database's clock."""

    run: Run
    role: str
    epoch: int
    worker: str | None
    live: bool
    acked_step: int
    live_step: int


_LOCK = """
SELECT r.run, r.spec::text AS spec, r.state, r.reason, s.epoch, s.worker, s.acked_step, s.live_step,
    coalesce(s.expires_at > clock_timestamp(), false) AS live
FROM runs r JOIN streams s ON s.run = r.run
WHERE r.run = :run AND s.role = :role
"""
_LOCK_STREAM = Statement(_LOCK + "FOR NO KEY UPDATE OF s")
_LOCK_BOTH = Statement(_LOCK + "FOR NO KEY UPDATE OF r, s")


async def lock(connection: AsyncConnection, run: str, role: str, *, with_run: bool = False) -> Stream:
    """The stream, locked, and its run, locked too if `with_run`; NotFound where the run or the role does not train."""
    found = {"run": run, "role": role}
    row = await (_LOCK_BOTH if with_run else _LOCK_STREAM).row(connection, found)
    if row is None:
        await runs.find(connection, run)
        raise NotFound(f"in run {run} no {role} trains")
    return Stream(Run.of(row), role, row.epoch, row.worker, row.live, row.acked_step, row.live_step)


_LOCK_EXPIRED = text("""
SELECT run, role FROM streams WHERE worker IS NOT NULL AND expires_at <= clock_timestamp()
ORDER BY run, role LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")


async def lock_expired(connection: AsyncConnection, limit: int) -> list[Row]:
    """Streams whose lease is over: run, role."""
    return list(await connection.execute(_LOCK_EXPIRED, {"limit": limit}))


_RENEW = Statement("""
UPDATE streams SET expires_at = clock_timestamp() + make_interval(secs => :ttl_s) WHERE run = :run AND role = :role
""")


async def renew(connection: AsyncConnection, run: str, role: str, ttl_s: float) -> None:
    """Prolong a live lease; the stream is locked."""
    await _RENEW.count(connection, {"run": run, "role": role, "ttl_s": ttl_s})


_GRANT = Statement("""
WITH leased AS (
    UPDATE deliveries SET state = 'leased', epoch = :epoch, leased_at = now()
    WHERE id = CAST(:delivery AS uuid) AND state = 'ready'
)
UPDATE streams SET expires_at = clock_timestamp() + make_interval(secs => :ttl_s) WHERE run = :run AND role = :role
""")


async def grant(connection: AsyncConnection, stream: Stream, delivery: str) -> None:
    """Lease a delivery, if it is not leased already, and prolong the lease that holds it."""
    found = {"run": stream.run.name, "role": stream.role, "epoch": stream.epoch, "delivery": delivery}
    await _GRANT.count(connection, found | {"ttl_s": stream.run.spec.lease_ttl_s})


_TAKE = text("""
UPDATE streams SET epoch = epoch + 1, worker = :worker,
    expires_at = clock_timestamp() + make_interval(secs => :ttl_s)
WHERE run = :run AND role = :role RETURNING epoch
""")


async def take(connection: AsyncConnection, run: str, role: str, worker: str, ttl_s: float) -> int:
    """Hold the stream under the next epoch: only this raises it."""
    found = {"run": run, "role": role, "worker": worker, "ttl_s": ttl_s}
    return (await connection.execute(_TAKE, found)).scalar_one()


_LEAVE = text("UPDATE streams SET worker = NULL, expires_at = NULL WHERE run = :run AND role = :role")


async def leave(connection: AsyncConnection, run: str, role: str) -> None:
    """Nobody holds the stream."""
    await connection.execute(_LEAVE, {"run": run, "role": role})


_ADVANCE = Statement("""
WITH acked AS (
    SELECT coalesce(max(step), 0) AS step FROM deliveries
    WHERE run = :run AND role = :role AND state = 'acked' AND step < coalesce((
        SELECT min(step) FROM deliveries WHERE run = :run AND role = :role AND state <> 'acked'), 2147483647)
), confirmed AS (
    SELECT coalesce(max(p.step), 0) AS step FROM policies p, acked
    WHERE p.run = :run AND p.role = :role AND p.confirmed_at IS NOT NULL AND NOT p.superseded AND p.step <= acked.step
), trained AS (
    SELECT coalesce(min(d.step), 2147483647) AS step FROM deliveries d, confirmed
    WHERE d.run = :run AND d.role = :role AND d.step > confirmed.step AND d.outcome IS DISTINCT FROM 'skipped'
), live AS (
    SELECT greatest(confirmed.step, coalesce((
        SELECT max(d.step) FROM deliveries d
        WHERE d.run = :run AND d.role = :role AND d.step > confirmed.step AND d.step < trained.step
            AND d.step <= acked.step), 0)) AS step
    FROM confirmed, trained, acked
)
UPDATE streams s SET acked_step = acked.step, live_step = live.step
FROM acked, live WHERE s.run = :run AND s.role = :role
""")


async def advance(connection: AsyncConnection, run: str, role: str) -> None:
    """Recompute both cursors.

    `acked_step`: all deliveries up to it are acked. `live_step` (m-grpo.md, section 6): the highest acked step whose
    weights the samplers have confirmed, and then the steps directly after it that were skipped.
    """
    await _ADVANCE.count(connection, {"run": run, "role": role})


_HORIZON = text("SELECT coalesce(min(live_step), 0) FROM streams WHERE run = :run")


async def slowest_live_step(connection: AsyncConnection, run: str) -> int:
    """The lowest live step of the roles that train."""
    return (await connection.execute(_HORIZON, {"run": run})).scalar_one()
