"""Where a run stands, and in words who waits for whom."""

from collections.abc import AsyncIterator, Iterator, Sequence

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.run import RoleStatus, RunStatus
from sync_service import store
from sync_service.operations.groups import open_through
from sync_service.store.runs import Run

OPENING = ("declared", "running")
LASTING = ("declared", "running", "paused")


async def may_open(connection: AsyncConnection, name: str, step: int) -> bool | None:
    """Whether groups of `step` may be opened now; None: not yet, but it may come."""
    run = await store.runs.find(connection, name)
    if run.state not in LASTING:
        return False
    reached = step <= open_through(run, await store.streams.slowest_live_step(connection, name))
    return True if reached and run.state in OPENING else None


async def status(connection: AsyncConnection, name: str, uncounted_bytes: int = 0) -> RunStatus:
    """The run's state, counts, streams and waits."""
    run = await store.runs.find(connection, name)
    streams = await store.status.streams(connection, name)
    horizon = open_through(run, min(stream.live_step for stream in streams))
    return RunStatus.model_validate(
        {
            "run": name,
            "state": run.state,
            "reason": run.reason,
            "open_through": horizon,
            **{
                noun: await store.status.counts(connection, name, noun)
                for noun in ("groups", "rollouts", "trajectories")
            },
            "roles": {stream.role: _role(stream) for stream in streams},
            "waiting_for": tuple([wait async for wait in _waits(connection, run, streams, horizon)]),
            "bytes_received": await store.status.bytes_received(connection, name) + uncounted_bytes,
        }
    )


def _role(stream: Row) -> RoleStatus:
    return RoleStatus(
        epoch=stream.epoch,
        acked_step=stream.acked_step,
        live_step=stream.live_step,
        worker=stream.worker if stream.live else None,
        ready=stream.ready,
        waiting=stream.waiting,
        dead=stream.dead,
    )


async def _waits(connection: AsyncConnection, run: Run, streams: Sequence[Row], horizon: int) -> AsyncIterator[str]:
    """One short sentence for each wait; none where everything moves."""
    if run.state in ("finished", "failed", "purging"):
        return
    if run.state == "paused":
        yield "everything waits for the operator, who paused the run"
    for delivery in await store.status.dead(connection, run.name):
        yield (
            f"{delivery.role} waits for the operator: step {delivery.step} is dead "
            f"after {delivery.attempts} attempts ({delivery.error})"
        )
    batches = {row.step: row for row in await store.status.unfinished_batches(connection, run.name)}
    for stream in streams:
        for wait in _stream_waits(stream, batches):
            yield wait
    full = await store.status.last_full_step(connection, run.name, run.spec.groups_per_step)
    if run.state == "running" and full >= horizon and horizon < run.spec.steps:
        for stream in streams:
            if stream.live_step + 1 + run.spec.staleness <= horizon:
                yield f"planner waits for step {horizon + 1}: {stream.role} live step is {stream.live_step}"


def _stream_waits(stream: Row, batches: dict[int, Row]) -> Iterator[str]:
    if stream.ready and not stream.live:
        plural = "batch is" if stream.ready == 1 else "batches are"
        yield f"{stream.role} has no lease; {stream.ready} {plural} ready"
    batch = batches.get(stream.next_step)
    if batch is None or stream.ready or stream.dead:
        return
    if not batch.cut:
        yield f"{stream.role} waits for step {batch.step}: {batch.opened - batch.closed} groups are open"
    elif stream.role == "executor":
        yield f"executor waits for step {batch.step}: scores of {batch.opened - batch.sealed} groups"
