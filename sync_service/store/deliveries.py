"""Deliveries: a batch as one role sees it."""

import json
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.schemas.stream import Ack, StepStatistics
from shared.schemas.views import DeliveryRow
from sync_service.store.statement import Statement
from sync_service.store.views import view

_MAKE_READY = Statement("""
UPDATE deliveries d SET state = 'ready', ready_at = now()
FROM batches b
WHERE d.run = :run AND d.step = ANY(:steps) AND d.state = 'waiting' AND b.run = d.run AND b.step = d.step
    AND b.cut_at IS NOT NULL AND (d.role = 'planner' OR :pooled OR b.sealed = b.opened)
RETURNING d.id, d.role, d.step
""")


async def make_ready(connection: AsyncConnection, run: str, steps: list[int], *, pooled: bool) -> list[Row]:
    """The planner's at the cut; the executor's once all groups are sealed, or (`pooled`) at the cut: id, role, step."""
    return await _MAKE_READY.rows(connection, {"run": run, "steps": steps, "pooled": pooled})


_COLUMNS = "id, run, role, step, state, epoch, attempts, error, outcome, reason, acked_at, digest, by_operator"
_NEXT = Statement(f"""
SELECT {_COLUMNS} FROM deliveries WHERE run = :run AND role = :role AND state <> 'acked' ORDER BY step LIMIT 1
""")  # noqa: S608 - no value from outside


async def next_unacked(connection: AsyncConnection, run: str, role: str) -> Row | None:
    """The stream's next delivery, whatever its state."""
    return await _NEXT.row(connection, {"run": run, "role": role})


_AT = Statement(f"SELECT {_COLUMNS} FROM deliveries WHERE run = :run AND role = :role AND step = :step")  # noqa: S608


async def at(connection: AsyncConnection, run: str, role: str, step: int) -> Row | None:
    """The delivery of a step, if the step is opened."""
    return await _AT.row(connection, {"run": run, "role": role, "step": step})


_VIEW = text("""
SELECT id, run, role, step, state, epoch, attempts, error, outcome, reason, acked_at FROM deliveries
WHERE id = CAST(:id AS uuid)
""")


async def find_view(connection: AsyncConnection, id: str) -> DeliveryRow:
    """One delivery, as a list shows it."""
    return view(DeliveryRow, (await connection.execute(_VIEW, {"id": id})).one())


_FIND = text(f"SELECT {_COLUMNS} FROM deliveries WHERE id = CAST(:id AS uuid)")  # noqa: S608


async def find(connection: AsyncConnection, id: str) -> Row:
    """One delivery; NotFound where there is none."""
    row = (await connection.execute(_FIND, {"id": id})).one_or_none()
    if row is None:
        raise NotFound(f"there is no delivery {id}")
    return row


_ACK = Statement("""
UPDATE deliveries SET state = 'acked', epoch = :epoch, acked_at = now(), outcome = :outcome, reason = :reason,
    updates = :updates, statistics = CAST(:statistics AS jsonb), histograms = CAST(:histograms AS jsonb),
    digest = :digest, by_operator = :by_operator
WHERE id = CAST(:id AS uuid)
""")


async def ack(connection: AsyncConnection, id: str, ack: Ack, digest: bytes, *, by_operator: bool = False) -> None:
    """Leased (or, by an operator, dead) to acked, with the step's statistics."""
    dumped: dict[str, Any] = ack.model_dump(mode="json", include={"epoch", "outcome", "reason", "updates"})
    dumped["statistics"] = json.dumps(ack.statistics)
    dumped["histograms"] = json.dumps(ack.histograms)
    await _ACK.count(connection, {"id": id, "digest": digest, "by_operator": by_operator, **dumped})


_UPDATES_BEFORE = text("""
SELECT updates FROM deliveries WHERE run = :run AND role = :role AND step < :step AND state = 'acked'
ORDER BY step DESC LIMIT 1
""")


async def updates_before(connection: AsyncConnection, run: str, role: str, step: int) -> int:
    """The optimiser steps behind the weights that the step would have trained."""
    found = {"run": run, "role": role, "step": step}
    return (await connection.execute(_UPDATES_BEFORE, found)).scalar_one_or_none() or 0


_UNLEASE = text("""
UPDATE deliveries SET ready_at = now(),
    state = CASE WHEN :failed AND attempts + 1 >= :max_attempts THEN 'dead' ELSE 'ready' END,
    attempts = attempts + CASE WHEN :failed THEN 1 ELSE 0 END,
    error = coalesce(:error, error)
WHERE run = :run AND role = :role AND state = 'leased'
RETURNING id, step, state, attempts
""")


async def unlease(
    connection: AsyncConnection, run: str, role: str, *, error: str | None, max_attempts: int
) -> list[Row]:
    """Leased to ready; with an error the attempt counts, and the last one makes it dead: id, step, state, attempts."""
    found = {"run": run, "role": role, "failed": error is not None, "error": error, "max_attempts": max_attempts}
    return list(await connection.execute(_UNLEASE, found))


_REOPEN = text("""
UPDATE deliveries SET state = 'ready', acked_at = NULL, outcome = NULL, reason = NULL, updates = NULL,
    statistics = NULL, histograms = NULL, digest = NULL
WHERE run = :run AND role = :role AND step > :step AND state = 'acked' AND NOT by_operator
RETURNING step
""")


async def reopen(connection: AsyncConnection, run: str, role: str, step: int) -> list[int]:
    """Acked to ready for every step above `step`, but not for those that an operator skipped; which."""
    return list((await connection.execute(_REOPEN, {"run": run, "role": role, "step": step})).scalars())


_REQUEUE = text("UPDATE deliveries SET state = 'ready', ready_at = now(), attempts = 0 WHERE id = CAST(:id AS uuid)")


async def requeue(connection: AsyncConnection, id: str) -> None:
    """Dead to ready, with all attempts before it."""
    await connection.execute(_REQUEUE, {"id": id})


_STATISTICS = text("""
SELECT step, role, epoch, outcome, reason, updates, acked_at, statistics, histograms FROM deliveries
WHERE run = :run AND state = 'acked' AND (step, role) > (:step, :role) ORDER BY step, role LIMIT :limit
""")


async def statistics(connection: AsyncConnection, run: str, after: tuple[int, str], limit: int) -> list[StepStatistics]:
    """The statistics of acked steps, both roles, above `after`."""
    found = {"run": run, "step": after[0], "role": after[1], "limit": limit}
    rows = await connection.execute(_STATISTICS, found)
    return [view(StepStatistics, row) for row in rows]


_PAGE = text("""
SELECT id, run, role, step, state, epoch, attempts, error, outcome, reason, acked_at FROM deliveries
WHERE run = :run AND (CAST(:state AS text) IS NULL OR state = :state) AND (step, role) > (:step, :role)
ORDER BY step, role LIMIT :limit
""")


async def page(
    connection: AsyncConnection, run: str, state: str | None, after: tuple[int, str], limit: int
) -> list[DeliveryRow]:
    """The run's deliveries, above `after`."""
    found = {"run": run, "state": state, "step": after[0], "role": after[1], "limit": limit}
    return [view(DeliveryRow, row) for row in await connection.execute(_PAGE, found)]
