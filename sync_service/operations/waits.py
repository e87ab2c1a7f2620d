"""Who waits for whom in a run, since when, and until when at the latest; none where everything moves."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.run import Wait
from sync_service import store
from sync_service.operations.groups import open_through
from sync_service.store.runs import Run

OVER = ("finished", "failed", "purging")


async def waits(connection: AsyncConnection, run: Run, streams: Sequence[Row], stall_s: float) -> tuple[Wait, ...]:
    """The run's waits; `streams` as `store.status.streams` reads them. A pause stalls nobody."""
    if run.state in OVER:
        return ()
    teller = _Teller(streams[0].at, float("inf") if run.state == "paused" else stall_s)
    return tuple([wait async for wait in _all(connection, run, streams, teller)])


class _Teller:
    """Tells a wait, by the database's clock."""

    def __init__(self, now: datetime, stall_s: float) -> None:
        self._now = now
        self._stall_s = stall_s

    def tell(
        self,
        code: str,
        who: str,
        whom: str,
        text: str,
        since: datetime | None,
        *,
        step: int | None = None,
        count: int | None = None,
        until: datetime | None = None,
    ) -> Wait:
        """The wait; one that began in this moment has no `since` yet."""
        began = since or self._now
        return Wait(
            code=code,
            who=who,
            whom=whom,
            step=step,
            count=count,
            since=began.isoformat(),
            until=until.isoformat() if until else None,
            stalled=(self._now - began).total_seconds() > self._stall_s,
            text=text,
        )


async def _all(connection: AsyncConnection, run: Run, streams: Sequence[Row], teller: _Teller) -> AsyncIterator[Wait]:
    if run.state == "paused":
        text = "everything waits for the operator, who paused the run"
        yield teller.tell("paused", "run", "operator", text, await store.status.paused_at(connection, run.name))
    for row in await store.status.dead(connection, run.name):
        text = f"{row.role} waits for the operator: step {row.step} is dead after {row.attempts} attempts ({row.error})"
        yield teller.tell("dead-delivery", row.role, "operator", text, row.since, step=row.step)
    batches = {row.step: row for row in await store.status.unfinished_batches(connection, run.name)}
    for stream in streams:
        for wait in _of_stream(stream, batches, teller):
            yield wait
    full = await store.status.last_full_step(connection, run.name, run.spec.groups_per_step)
    for wait in _of_planner(run, streams, batches, full, teller):
        yield wait


def _of_stream(stream: Row, batches: dict[int, Row], teller: _Teller) -> Iterator[Wait]:
    """A role's stream waits for a trainer, for groups that are open, or for scores."""
    role, acked = stream.role, stream.acked_at
    if stream.ready and not stream.live:
        plural = "batch is" if stream.ready == 1 else "batches are"
        text = f"{role} has no lease; {stream.ready} {plural} ready"
        since = _later(stream.ready_at, acked)
        yield teller.tell("no-trainer", role, "trainer", text, since, step=stream.next_step, count=stream.ready)
    batch = batches.get(stream.next_step)
    if batch is None or stream.ready or stream.dead:
        return
    if not batch.cut:
        count, since, until = batch.opened - batch.closed, _later(batch.closing_since, acked), batch.closing_until
        what = f"{count} group{'s are' if count > 1 else ' is'} open" if count else "not all of its groups are opened"
        text = f"{role} waits for step {batch.step}: {what}"
        yield teller.tell("open-groups", role, "planner", text, since, step=batch.step, count=count, until=until)
    elif role == "executor":
        count, since, until = batch.opened - batch.sealed, _later(batch.scoring_since, acked), batch.scoring_until
        text = f"executor waits for step {batch.step}: scores of {count} groups"
        yield teller.tell("scores", role, "executor", text, since, step=batch.step, count=count, until=until)


def _of_planner(
    run: Run, streams: Sequence[Row], batches: dict[int, Row], full: Row | None, teller: _Teller
) -> Iterator[Wait]:
    """The planner has opened all that it may, and waits for the slower role; or it may open more, and long does not."""
    horizon = open_through(run, min(stream.live_step for stream in streams))
    if run.state != "running" or full is None:
        return
    since = _later(full.opened_at, *(stream.acked_at for stream in streams))
    if full.step < horizon:
        text = f"the run waits for the planner: step {full.step + 1} may be opened"
        wait = teller.tell("unopened-groups", "run", "planner", text, since, step=full.step + 1)
        if wait.stalled:  # a moment of this is normal: the planner hears of it, and opens the groups
            yield wait
    elif horizon < run.spec.steps:
        for stream in streams:
            if stream.live_step + 1 + run.spec.staleness <= horizon:
                text = f"planner waits for step {horizon + 1}: {stream.role} live step is {stream.live_step}"
                moved = _moved(stream, batches.get(stream.next_step))
                since = _later(full.opened_at, *moved)
                yield teller.tell("live-step", "planner", stream.role, text, since, step=horizon + 1)


def _moved(stream: Row, batch: Row | None) -> tuple[datetime | None, ...]:
    """When something of the step that a stream is at has moved: a long step is no stall."""
    of_batch = (batch.closing_since, batch.scoring_since) if batch else ()
    return stream.acked_at, stream.ready_at, *of_batch


def _later(*times: datetime | None) -> datetime | None:
    return max((time for time in times if time is not None), default=None)
