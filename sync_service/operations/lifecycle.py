"""From the last rollout of a group to a delivery that can be leased: close, seal, cut, make ready.

    group open -> complete | discarded     every slot final, or the rollout deadline past
    scoring pending -> sealed              no score awaited, or the score deadline past
    batch cut                              every group that is owed is closed
    delivery waiting -> ready              planner: at the cut; executor: when all its groups are sealed

Whoever causes one of these moves makes it, in the same transaction; the reaper makes those that only time causes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.run import RunSpec
from sync_service import store
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
    moved = set()
    for run, theirs in sorted(by_run.items()):
        spec = theirs[0].spec
        closed = await _close(connection, spec, theirs, discard)
        sealed = await _seal(connection, spec, theirs)
        if closed or sealed:
            steps = {group.id: group.step for group in theirs}
            counted = [Counter(steps[id] for id in ids) for ids in (closed, sealed)]
            await store.batches.count(connection, run, *counted)
            await cut(connection, run, spec, sorted({*counted[0], *counted[1]}))
            moved.add(run)
    return moved


async def settle_overdue(connection: AsyncConnection, groups: Iterable[Group]) -> set[str]:
    """Close or seal those whose deadline is past, before anything that comes now is judged against them."""
    overdue = [group for group in groups if group.due or group.score_due]
    return await advance(connection, overdue) if overdue else set()


async def _close(connection: AsyncConnection, spec: RunSpec, groups: list[Group], discard: str | None) -> list[str]:
    closing, reasons = [], {}
    for group in groups:
        target = "discarded" if discard else outcome(group)
        if group.state != "open" or target == "open":
            continue
        check(GROUP, f"group {group.id}", group.state, target)
        group.state, group.touched = target, True
        closing.append(group)
        if target == "discarded":
            reasons[group.id] = discard or "too-few-rollouts"
    touched = [group for group in groups if group.touched]
    if touched:
        await store.groups.settle(connection, touched, reasons)
        for group in touched:
            group.touched = False
    if closing:
        await store.trajectories.orphan_unnamed(connection, [group.id for group in closing])
    if reasons:
        await store.trajectories.discard(connection, list(reasons), delivered=spec.cutter == "arrival")
    return [group.id for group in closing]


async def _seal(connection: AsyncConnection, spec: RunSpec, groups: list[Group]) -> set[str]:
    """A discarded group is sealed at once, a complete one when nothing is awaited or its deadline is past."""
    pending = [group for group in groups if group.scoring == "pending" and group.state != "open"]
    if not pending:
        return set()
    forced = [group.id for group in pending if group.score_due or group.state == "discarded"]
    sealed = await store.groups.seal(connection, [group.id for group in pending], forced)
    for group in pending:
        group.scoring = "sealed" if group.id in sealed else group.scoring
    if sealed:
        await store.trajectories.drop_at_seal(
            connection,
            sorted(sealed),
            trained="executor" in spec.trained_roles,
            pooled=spec.cutter == "arrival",
        )
    return sealed


async def cut(connection: AsyncConnection, run: str, spec: RunSpec, steps: list[int]) -> None:
    """Cut what can be cut of the batches `steps`, which are locked, and make ready the deliveries that can be."""
    newly_cut = await store.batches.cut(connection, run, steps, spec.groups_per_step)
    pooled = spec.cutter == "arrival"
    if pooled and "executor" in spec.trained_roles:
        for step in newly_cut:
            await store.trajectories.collect(connection, run, step)
    await store.deliveries.make_ready(connection, run, steps, pooled=pooled)
