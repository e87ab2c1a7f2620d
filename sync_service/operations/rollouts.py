"""Rollouts come in: each is final, the last one owed closes its group.

A request of many is one transaction: its groups are locked, each item is judged in turn against what the tables hold
and what the items before it did, and what is accepted is written set-wise. An item that is refused is refused alone.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, Conflict, InvalidInput, NotFound, TandemError
from shared.schemas.rollout import Accepted, RolloutItem, RolloutReport
from shared.schemas.run import TERMS, PlannerReward
from sync_service import store
from sync_service.database import Again
from sync_service.operations import lifecycle
from sync_service.operations.digest import digest
from sync_service.store.groups import Group

Outcome = Accepted | TandemError


@lru_cache
def answer(accepted: bool, state: str) -> Accepted:
    """There are but a few."""
    return Accepted(accepted=accepted, state=state)


async def submit(connection: AsyncConnection, items: Sequence[RolloutItem]) -> tuple[list[Outcome], set[str]]:
    """What became of each item, in order, and the runs in which a group closed or was sealed."""
    groups = await store.groups.lock(connection, {item.body.group for item in items})
    moved = await lifecycle.settle_overdue(connection, groups.values())
    named = {id for item in items for id in item.body.executor_trajectories}
    judge = _Judge(
        groups,
        rollouts=await store.rollouts.find_around(connection, [item.id for item in items], groups),
        trajectories=await store.trajectories.find_many(connection, named) if named else {},
    )
    outcomes = [judge.outcome(item) for item in items]
    if judge.rows and not await store.rollouts.record(connection, judge.rows):
        raise Again
    return outcomes, moved | await lifecycle.advance(connection, groups.values())


class _Judge:
    """Judges items one after another; `rows` is what is to be written for those it accepted."""

    def __init__(self, groups: dict[str, Group], rollouts: list[Row], trajectories: dict[str, Row]) -> None:
        self._groups = groups
        self._answered = {row.id: (bytes(row.digest), row.state) for row in rollouts}
        self._slots = {(row.group_id, row.slot) for row in rollouts if row.state != "late"}
        self._owners = {id: (row.run, row.rollout_id, row.named_by) for id, row in trajectories.items()}
        self.rows: list[dict[str, Any]] = []

    def outcome(self, item: RolloutItem) -> Outcome:
        """Accepted (now or before, in time or late), or why not."""
        try:
            return self._accept(item)
        except TandemError as error:
            return error

    def _accept(self, item: RolloutItem) -> Accepted:
        body, fingerprint = item.body, digest(item.body)
        if item.id in self._answered:
            before, state = self._answered[item.id]
            if before != fingerprint:
                raise BodyConflict(f"rollout {item.id} was submitted with another body")
            return answer(state != "late", state)
        group = self._group(item)
        state: str = body.status if group.takes_rollouts else "late"
        if state != "late" and (group.id, body.slot) in self._slots:
            raise Conflict(f"slot {body.slot} of group {group.id} has its rollout already")
        self._claim_trajectories(item)
        self._record(item, group, state, fingerprint)
        return answer(state != "late", state)

    def _group(self, item: RolloutItem) -> Group:
        group = self._groups.get(item.body.group)
        if group is None or group.run != item.body.run or group.run_state == "purging":
            raise NotFound(f"run {item.body.run} has no group {item.body.group}")
        if item.body.slot >= group.spec.rollouts_per_group:
            raise InvalidInput(f"slot: group {group.id} has {group.spec.rollouts_per_group} slots")
        if item.body.status == "reported":
            _check_terms(item.body, group.spec.planner_reward)
        return group

    def _claim_trajectories(self, item: RolloutItem) -> None:
        """A trajectory is of one rollout: of the one that it was submitted for, and of the one that names it."""
        for id in item.body.executor_trajectories:
            run, rollout, named_by = self._owners.get(id, (item.body.run, item.id, None))
            if (run, rollout, named_by) != (item.body.run, item.id, None):
                raise Conflict(f"executor_trajectories: {id} is of another rollout", trajectory=id)

    def _record(self, item: RolloutItem, group: Group, state: str, fingerprint: bytes) -> None:
        body = item.body
        self._answered[item.id] = (fingerprint, state)
        if state != "late":
            self._slots.add((group.id, body.slot))
            group.count(reported=state == "reported")
        self._owners |= dict.fromkeys(body.executor_trajectories, (body.run, item.id, state))
        version = body.version
        in_batch = state == "reported" and group.spec.cutter == "group"
        row = {
            "id": item.id,
            "run": body.run,
            "group_id": group.id,
            "slot": body.slot,
            "state": state,
            "reason": body.reason,
            "planner_trajectory": body.planner_trajectory,
            "r_format": body.r_format,
            "r_correct": body.r_correct,
            **{f"r_{term}": getattr(body, f"r_{term}") for term in TERMS},
            "executor_trajectories": body.executor_trajectories,
            "tokens": body.tokens,
            "version_epoch": version.epoch if version else None,
            "version_step": version.step if version else None,
            "version_updates": version.updates if version else None,
            "digest": fingerprint.hex(),
            "batch_step": group.step if in_batch else None,
        }
        self.rows.append(row)


def _check_terms(body: RolloutReport, reward: PlannerReward) -> None:
    """InvalidInput where the scores are not those of the terms that the run's reward has."""
    for term in TERMS:
        given, wanted = getattr(body, f"r_{term}") is not None, term in reward.terms
        if given != wanted:
            raise InvalidInput(f"r_{term}: the reward of run {body.run} {'needs' if wanted else 'has no'} {term}")
