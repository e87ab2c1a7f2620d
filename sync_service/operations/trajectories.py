"""Executor trajectories come in: scored or given up; the last score awaited seals its group.

They may come before their rollout, and then wait for it without a group. As with rollouts, a request of many is one
transaction, and an item that is refused is refused alone.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, Conflict, NotFound, TandemError
from shared.schemas.rollout import Accepted, TrajectoryItem
from sync_service import store
from sync_service.database import Again
from sync_service.operations import lifecycle
from sync_service.operations.digest import digest
from sync_service.operations.rollouts import Outcome, answer
from sync_service.store.groups import Group
from sync_service.store.runs import Run


async def submit(connection: AsyncConnection, items: Sequence[TrajectoryItem]) -> tuple[list[Outcome], set[str]]:
    """What became of each item, in order, and the runs in which a group was sealed."""
    rollout_ids = {item.body.rollout for item in items}
    groups = await store.groups.lock_of_rollouts(connection, rollout_ids)
    moved = await lifecycle.settle_overdue(connection, groups.values())
    rollouts = await store.rollouts.find_many(connection, rollout_ids)
    if any(row.group_id not in groups for row in rollouts.values()):
        raise Again  # that rollout came between the two statements
    runs = {group.run: Run(group.run, group.spec, group.run_state, None) for group in groups.values()}
    if strangers := {item.body.run for item in items} - runs.keys():
        runs |= await store.runs.keep_many(connection, sorted(strangers))
    judge = _Judge(
        runs,
        groups,
        rollouts,
        known=await store.trajectories.find_many(connection, [item.id for item in items]),
        cut_out={name for name, run in runs.items() if await _nothing_more_is_cut(connection, run)},
    )
    outcomes = [judge.outcome(item) for item in items]
    if judge.rows and not await store.trajectories.submit(connection, judge.rows):
        raise Again
    return outcomes, moved | await lifecycle.advance(connection, groups.values())


async def _nothing_more_is_cut(connection: AsyncConnection, run: Run) -> bool:
    """Cutter `arrival`: a row waits in no group's batch but for the next cut, if there is one."""
    return run.spec.cutter == "arrival" and not await store.batches.more_cuts(connection, run.name)


class _Judge:
    """Judges items one after another; `rows` is what is to be written for those it accepted."""

    def __init__(
        self,
        runs: dict[str, Run],
        groups: dict[str, Group],
        rollouts: dict[str, Row],
        known: dict[str, Row],
        cut_out: set[str],
    ) -> None:
        self._runs = runs
        self._groups = groups
        self._rollouts = rollouts
        self._known = known
        self._cut_out = cut_out
        self._answered: dict[str, tuple[bytes, Accepted]] = {}
        self.rows: list[dict[str, Any]] = []

    def outcome(self, item: TrajectoryItem) -> Outcome:
        """Accepted (now or before, in time or late), or why not."""
        try:
            return self._accept(item)
        except TandemError as error:
            return error

    def _accept(self, item: TrajectoryItem) -> Accepted:
        fingerprint = digest(item.body)
        before = self._before(item)
        if before is not None:
            if before[0] != fingerprint:
                raise BodyConflict(f"trajectory {item.id} was submitted with another body")
            return before[1]
        self._refuse_strangers(item)
        state, reason = self._state(item)
        accepted = answer(state in ("scored", "unscored"), state)
        self._answered[item.id] = (fingerprint, accepted)
        self._record(item, state, reason, fingerprint)
        return accepted

    def _before(self, item: TrajectoryItem) -> tuple[bytes, Accepted] | None:
        """The body and the answer of an earlier submission; a later move of the row does not change the answer."""
        if item.id in self._answered:
            return self._answered[item.id]
        row = self._known.get(item.id)
        if row is None or row.digest is None:
            return None
        state = item.body.status if row.accepted else row.state
        return bytes(row.digest), answer(row.accepted, state)

    def _refuse_strangers(self, item: TrajectoryItem) -> None:
        """Its run must exist, its rollout be of that run, and no other rollout name it."""
        run = item.body.run
        if run not in self._runs or self._runs[run].state == "purging":
            raise NotFound(f"there is no run {run}")
        rollout = self._rollouts.get(item.body.rollout)
        if rollout is not None and rollout.run != run:
            raise Conflict(f"rollout {item.body.rollout} is not of run {run}")
        row = self._known.get(item.id)
        if row is not None and (row.run, row.rollout_id) != (run, item.body.rollout):
            raise Conflict(f"trajectory {item.id} is named by another rollout")

    def _state(self, item: TrajectoryItem) -> tuple[str, str | None]:
        """In which state the row starts, and why if it is not as submitted."""
        rollout, row = self._rollouts.get(item.body.rollout), self._known.get(item.id)
        if rollout is None:
            return item.body.status, None
        group = self._groups[rollout.group_id]
        if row is None:  # the rollout is final, and does not name it
            return (item.body.status, None) if group.takes_rollouts else ("orphan", "not-named")
        if row.named_by == "late" or not group.takes_scores or item.body.run in self._cut_out:
            return "late", None
        return item.body.status, None

    def _record(self, item: TrajectoryItem, state: str, reason: str | None, fingerprint: bytes) -> None:
        body = item.body
        rollout = self._rollouts.get(body.rollout)
        row = {
            "id": item.id,
            "run": body.run,
            "rollout_id": body.rollout,
            "group_id": rollout.group_id if rollout is not None else None,
            "state": state,
            "reason": reason,
            "unscored_reason": body.reason,
            "r_format": body.r_format,
            "r_expert": body.r_expert,
            "tokens": body.tokens,
            "version_epoch": body.version.epoch,
            "version_step": body.version.step,
            "version_updates": body.version.updates,
            "accepted": state in ("scored", "unscored"),
            "digest": fingerprint.hex(),
            "orphan_s": self._runs[body.run].spec.orphan_deadline_s if rollout is None else None,
        }
        self.rows.append(row)
