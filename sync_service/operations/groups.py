"""Groups: opened by the planner within the staleness rule, discarded by an operator."""

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, Conflict, InvalidInput, InvalidTransition, NotFound, StalenessBound
from shared.schemas.rollout import GroupOpen, GroupView
from sync_service import store
from sync_service.operations import audit, lifecycle
from sync_service.operations.runs import drain, enter
from sync_service.states import GROUP, check
from sync_service.store.groups import Admission
from sync_service.store.runs import Run


def open_through(run: Run, slowest_live_step: int) -> int:
    """The highest step of which groups may be opened (m-grpo.md, section 6)."""
    return min(run.spec.steps, 1 + run.spec.staleness + slowest_live_step)


async def open_group(connection: AsyncConnection, id: str, body: GroupOpen) -> GroupView:
    """Open a group, or answer as before; the last one of the run starts its drain."""
    found = await store.groups.admission(connection, id, body)
    if found.known:
        return await _as_before(connection, id, body)
    # The first group starts the run and the last one drains it; the others only need its state to stand still. When
    # the last step may be opened, `staleness` steps before it may still lack groups, too.
    spec = found.run.spec
    exclusive = found.run.state == "declared" or body.step >= spec.steps - spec.staleness
    run = await store.runs.find(connection, body.run, lock="update" if exclusive else "share")
    _admit(run, found, body)
    await store.groups.insert(connection, id, body, spec)
    if run.state == "declared":
        await enter(connection, run, "running")
    if exclusive and await store.batches.full(connection, body.run, spec.groups_per_step) == spec.steps:
        await drain(connection, run)
    return GroupView(group=id, **body.model_dump(), state="open", scoring="pending")


async def _as_before(connection: AsyncConnection, id: str, body: GroupOpen) -> GroupView:
    view = await store.groups.find(connection, id)
    if (view.run, view.step, view.index, view.task_id) != (body.run, body.step, body.index, body.task_id):
        raise BodyConflict(f"group {id} is opened for another place or task")
    return view


def _admit(run: Run, found: Admission, body: GroupOpen) -> None:
    """Raise where a group of this step and index cannot be opened now."""
    if body.step > run.spec.steps:
        raise InvalidInput(f"step: run {run.name} has {run.spec.steps} steps")
    if body.index >= run.spec.groups_per_step:
        raise InvalidInput(f"index: run {run.name} has {run.spec.groups_per_step} groups a step")
    if run.state not in ("declared", "running"):
        raise InvalidTransition(f"run {run.name} is {run.state} and opens no group", state=run.state)
    if found.holder is not None:
        raise Conflict(f"step {body.step}, index {body.index} is held by group {found.holder}")
    horizon = open_through(run, found.live_step)
    if body.step > horizon:
        raise StalenessBound(f"step {body.step} may not be opened yet, only up to {horizon}", open_through=horizon)


async def discard(connection: AsyncConnection, id: str, by: str | None) -> GroupView:
    """An operator gives a group up."""
    group = (await store.groups.lock(connection, [id])).get(id)
    if group is None:
        raise NotFound(f"there is no group {id}")
    if group.state != "discarded":
        check(GROUP, f"group {id}", group.state, "discarded")
        await lifecycle.advance(connection, [group], discard="by-operator")
        await audit.record(connection, by, "group-discard", id, group.run)
    return await store.groups.find(connection, id)
