"""Groups: opened by the planner within the staleness rule, discarded by an operator."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import (
    BodyConflict,
    Conflict,
    InvalidInput,
    InvalidTransition,
    NotFound,
    StalenessBound,
    TandemError,
)
from shared.schemas.rollout import GroupItem, GroupOpen, GroupView
from sync_service import store
from sync_service.operations import audit, lifecycle
from sync_service.operations.runs import drain, enter
from sync_service.states import GROUP, check
from sync_service.store.groups import Admission
from sync_service.store.runs import Run

Outcome = GroupView | TandemError


def open_through(run: Run, slowest_live_step: int) -> int:
    """The highest step of which groups may be opened (m-grpo.md, section 6)."""
    return min(run.spec.steps, 1 + run.spec.staleness + slowest_live_step)


async def open_groups(connection: AsyncConnection, items: Sequence[GroupItem]) -> list[Outcome]:
    """Open groups, or answer as before: what became of each, in order. A run's last one starts its drain.

    Each is judged in turn, and refused alone; those of a run that are admitted are written set-wise.
    """
    runs: defaultdict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        runs[item.body.run].append(place)
    outcomes: dict[int, Outcome] = {}
    for run, places in sorted(runs.items()):  # in this order, as each locks its run
        outcomes |= zip(places, await _open_of_run(connection, run, [items[place] for place in places]), strict=True)
    return [outcomes[place] for place in range(len(items))]


async def _open_of_run(connection: AsyncConnection, run: str, items: list[GroupItem]) -> list[Outcome]:
    try:
        found = await store.groups.admission(connection, run, items)
    except NotFound as error:
        return [error.again() for _ in items]
    fresh = {item.id: item for item in items if item.id not in found.known}
    refused = await _open_fresh(connection, found, list(fresh.values())) if fresh else {}
    again = {item.id for item in items if fresh.get(item.id) is not item} - refused.keys()
    views = await store.groups.find_many(connection, again) if again else {}
    return [
        refused.get(item.id) or (_opened(item) if fresh.get(item.id) is item else _as_before(item, views[item.id]))
        for item in items
    ]


async def _open_fresh(connection: AsyncConnection, found: Admission, items: list[GroupItem]) -> dict[str, TandemError]:
    """Open those that are admitted; why not, for the others."""
    # The first group starts the run and the last one drains it; the others only need its state to stand still. When
    # the last step may be opened, `staleness` steps before it may still lack groups, too.
    spec = found.run.spec
    last = max(item.body.step for item in items) >= spec.steps - spec.staleness
    exclusive = found.run.state == "declared" or last
    run = await store.runs.find(connection, found.run.name, lock="update" if exclusive else "share")
    admitted, refused = [], {}
    for item in items:
        try:
            _admit(run, found, item.body)
        except TandemError as error:
            refused[item.id] = error
        else:
            found.holders[item.body.step, item.body.index] = item.id
            admitted.append(item)
    if not admitted:
        return refused
    await store.groups.insert(connection, admitted, spec)
    if run.state == "declared":
        await enter(connection, run, "running")
    if exclusive and await store.batches.full(connection, run.name, spec.groups_per_step) == spec.steps:
        await drain(connection, run)
    return refused


def _opened(item: GroupItem) -> GroupView:
    return GroupView(group=item.id, **item.body.model_dump(), state="open", scoring="pending")


def _as_before(item: GroupItem, view: GroupView) -> Outcome:
    """The answer for one that is open already, or that was asked for twice at once."""
    body = item.body
    if (view.run, view.step, view.index, view.task_id) != (body.run, body.step, body.index, body.task_id):
        return BodyConflict(f"group {item.id} is opened for another place or task")
    return view


def _admit(run: Run, found: Admission, body: GroupOpen) -> None:
    """Raise where a group of this step and index cannot be opened now."""
    if body.step > run.spec.steps:
        raise InvalidInput(f"step: run {run.name} has {run.spec.steps} steps")
    if body.index >= run.spec.groups_per_step:
        raise InvalidInput(f"index: run {run.name} has {run.spec.groups_per_step} groups a step")
    if run.state not in ("declared", "running"):
        raise InvalidTransition(f"run {run.name} is {run.state} and opens no group", state=run.state)
    if holder := found.holders.get((body.step, body.index)):
        raise Conflict(f"step {body.step}, index {body.index} is held by group {holder}")
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
