"""From the last rollout of a group to a delivery that can be leased: close, seal, cut, make ready.

    group open -> complete | discarded     every slot final, or the rollout deadline past
    scoring pending -> sealed              no score awaited, or the score deadline past
    batch cut                              every group that is owed is closed
    delivery waiting -> ready              planner: at the cut; executor: when all its groups are sealed

Whoever causes one of these moves makes it, in the same transaction; the reaper makes those that only time causes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.events import EventKind
from shared.schemas.run import RunSpec
from sync_service import store
from sync_service.operations.events import Note, emit, note
from sync_service.states import GROUP, check
from sync_service.store.groups import Group


def outcome(group: Group) -> str:
    """What an open group is now: still open, complete, or discarded for too few reported rollouts."""
    if group.final < group.spec.rollouts_per_group and not group.due:
        return "open"
    return "complete" if group.reported >= group.spec.min_rollouts else "discarded"


async def advance(connection: AsyncConnection, groups: Iterable[Group], *, discard: str | None = None) -> set[str]:
    """Make every move that is due for these locked groups; the runs in which anything closed or was sealed.

    `discard` is the reason for which an operator discards them all, whatever they hold.
    """
    by_run: defaultdict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_run[group.run].append(group)
    moved: set[str] = set()
    notes: list[Note] = []
    for run, theirs in sorted(by_run.items()):
        closed = _close(theirs, discard)
        sealed = await _settle(connection, theirs, closed, discard)
        if closed or sealed:
            notes += _told(closed, sealed)
            notes += await _count(connection, run, closed, sealed)
            moved.add(run)
    await emit(connection, notes)
    return moved


async def settle_overdue(connection: AsyncConnection, groups: Iterable[Group]) -> set[str]:
    """Close or seal those whose deadline is past, before anything that comes now is judged against them."""
    overdue = [group for group in groups if group.due or group.score_due]
    return await advance(connection, overdue) if overdue else set()


def _close(groups: list[Group], discard: str | None) -> list[Group]:
    """Those that close now, with their new state."""
    closing = []
    for group in groups:
        target = "discarded" if discard else outcome(group)
        if group.state == "open" and target != "open":
            check(GROUP, f"group {group.id}", group.state, target)
            group.state = target
            closing.append(group)
    return closing


async def _settle(
    connection: AsyncConnection, groups: list[Group], closed: list[Group], discard: str | None
) -> list[Group]:
    """Write what changed, and seal: a discarded group at once, a complete one when nothing is awaited any more."""
    closing = {group.id for group in closed}
    rows = [_row(group, group.id in closing, discard) for group in groups if group.touched or _may_be_sealed(group)]
    if not rows:
        return []
    scoring = await store.groups.settle(connection, rows)
    sealed = [group for group in groups if group.scoring == "pending" and scoring.get(group.id) == "sealed"]
    for group in groups:
        group.scoring, group.touched = scoring.get(group.id, group.scoring), False
    await _drop(connection, groups[0].spec, [group for group in closed if group.state == "discarded"], sealed)
    return sealed


def _may_be_sealed(group: Group) -> bool:
    return group.state != "open" and group.scoring == "pending"


def _row(group: Group, closing: bool, discard: str | None) -> dict[str, Any]:
    return {
        "id": group.id,
        "final": group.final,
        "reported": group.reported,
        "state": group.state,
        "closing": closing,
        "reason": (discard or "too-few-rollouts") if closing and group.state == "discarded" else None,
        "score_deadline_s": group.spec.score_deadline_s,
        "seal": group.state == "discarded" or group.score_due,
    }


async def _drop(connection: AsyncConnection, spec: RunSpec, discarded: list[Group], sealed: list[Group]) -> None:
    """Trajectories that no delivery will hold end when their group is discarded or sealed."""
    pooled, trained = spec.cutter == "arrival", "executor" in spec.trained_roles
    if discarded:
        await store.trajectories.discard(connection, [group.id for group in discarded], delivered=pooled)
    leftover = [group.id for group in sealed if pooled or not trained or group.reported < group.final]
    if leftover:
        await store.trajectories.drop_at_seal(connection, leftover, trained=trained, pooled=pooled)


def _told(closed: list[Group], sealed: list[Group]) -> list[Note]:
    """A discarded group is sealed at once: that is one event."""
    kinds: dict[str, EventKind] = {"complete": "group-closed", "discarded": "group-discarded"}
    told: list[tuple[EventKind, Group]] = [(kinds[group.state], group) for group in closed]
    told += [("group-sealed", group) for group in sealed if group.state == "complete"]
    return [
        note(group.run, kind, group=group.id, step=group.step, reported=group.reported, final=group.final)
        for kind, group in told
    ]


async def _count(connection: AsyncConnection, run: str, closed: list[Group], sealed: list[Group]) -> list[Note]:
    """Count towards the batches; the last group closed cuts one, the last one sealed readies it for the executor."""
    spec = (closed or sealed)[0].spec
    counts = [Counter(group.step for group in groups) for groups in (closed, sealed)]
    batches = await store.batches.count(connection, run, *counts)
    uncut = [batch.step for batch in batches if batch.all_closed]
    all_sealed = [batch.step for batch in batches if batch.all_sealed and not batch.all_closed]
    return await cut(connection, run, spec, uncut) + await _make_ready(connection, run, spec, all_sealed)


async def cut(connection: AsyncConnection, run: str, spec: RunSpec, steps: list[int]) -> list[Note]:
    """Cut what can be cut of the batches `steps`, which are locked, and make ready what is ready at the cut."""
    if not steps:
        return []
    newly_cut = await store.batches.cut(connection, run, steps, spec.groups_per_step)
    pooled = spec.cutter == "arrival"
    if pooled and "executor" in spec.trained_roles:
        for step in newly_cut:
            await store.trajectories.collect(connection, run, step)
    notes = [note(run, "batch-cut", step=step) for step in newly_cut]
    return notes + await _make_ready(connection, run, spec, newly_cut)


async def _make_ready(connection: AsyncConnection, run: str, spec: RunSpec, steps: list[int]) -> list[Note]:
    """The deliveries of `steps` that nothing holds back any more."""
    if not steps:
        return []
    ready = await store.deliveries.make_ready(connection, run, steps, pooled=spec.cutter == "arrival")
    return [note(run, "delivery-ready", delivery=row.id, role=row.role, step=row.step) for row in ready]
