"""Runs: declare, pause, resume, drain, fail, finish."""

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, InvalidTransition
from shared.schemas.run import RunSpec
from sync_service import store
from sync_service.operations import audit, events, lifecycle
from sync_service.states import RUN, check
from sync_service.store.runs import Run

OPERATOR_MOVES: dict[str, audit.Action] = {
    "paused": "run-pause",
    "running": "run-resume",
    "draining": "run-drain",
    "failed": "run-fail",
    "purging": "run-purge",
}


async def declare(connection: AsyncConnection, name: str, spec: RunSpec, by: str | None) -> Run:
    """A new run; the same spec again is fine, another one is a conflict."""
    if await store.runs.insert(connection, name, spec):
        await store.streams.insert(connection, name, spec.trained_roles)
        await events.emit(connection, [events.note(name, "run-moved", state="declared")])
        await audit.record(connection, by, "run-declare", name, name)
    run = await store.runs.find(connection, name)
    if run.state == "purging":
        raise InvalidTransition(f"run {name} is being purged; declare it again afterwards", state=run.state)
    if run.spec != spec:
        raise BodyConflict(f"run {name} is declared with another spec")
    return run


async def move(connection: AsyncConnection, name: str, target: str, by: str | None, reason: str | None = None) -> Run:
    """An operator's move. Where the run is in that state already, nothing changes: the call was repeated."""
    run = await store.runs.find(connection, name, lock="update")
    if run.state == target:
        return run
    if target == "running" and run.state == "declared":
        raise InvalidTransition(f"run {name} is declared; its first group starts it", state=run.state)
    if run.state == "finished" and target != "purging":
        raise InvalidTransition(f"run {name} is finished", state=run.state)
    check(RUN, f"run {name}", run.state, target)
    if target == "draining":
        await drain(connection, run)
    else:
        await enter(connection, run, target, reason)
    details = {"reason": reason} if reason else {}
    await audit.record(connection, by, OPERATOR_MOVES[target], name, name, **details)
    return await store.runs.find(connection, name)


async def drain(connection: AsyncConnection, run: Run) -> None:
    """Open nothing more. Those groups that are opened are all that their batches will have."""
    await enter(connection, run, "draining")
    uncut = await store.batches.lock_uncut(connection, run.name)
    await events.emit(connection, await lifecycle.cut(connection, run.name, run.spec, uncut))
    if run.spec.cutter == "arrival" and not uncut:
        await store.trajectories.drop_pool(connection, run.name)
    await finish_if_done(connection, run.name)


async def finish_if_done(connection: AsyncConnection, name: str) -> None:
    """Draining to finished, once every delivery is acked.

    The run must be locked by then: of two who ack the last deliveries, the second one sees both.
    """
    run = await store.runs.find(connection, name)
    if run.state != "draining":
        return
    streams = await store.status.streams(connection, name)
    if all(stream.next_step is None for stream in streams):
        await enter(connection, run, "finished")


async def reopen(connection: AsyncConnection, run: Run) -> None:
    """A finished run whose weights lack its last steps, as a resume says, has these to train again."""
    check(RUN, f"run {run.name}", run.state, "draining")
    await enter(connection, run, "draining")


async def enter(connection: AsyncConnection, run: Run, target: str, reason: str | None = None) -> None:
    """Write the state of a run that is locked; a pause that ends gives its time back to the deadlines."""
    if run.state == "paused":
        await store.runs.shift_deadlines(connection, run.name)
    await store.runs.set_state(connection, run.name, target, reason)
    await events.emit(connection, [events.note(run.name, "run-moved", state=target, reason=reason)])
