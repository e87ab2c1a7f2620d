"""The service as the state machine drives it: calls by HTTP, answers in the model's words, tables as rows."""

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine

from shared.errors import TandemError
from shared.ids import derived_id
from shared.schemas.rollout import GroupOpen, RolloutItem, RolloutReport, TrajectoryItem, TrajectoryReport
from shared.schemas.run import RunSpec
from shared.schemas.stream import Ack
from sync_service import reaper
from tests.faults.model import GROUPS, MIN_ROLLOUTS, SLOTS, STALENESS, STEPS
from tests.faults.model_streams import MAX_ATTEMPTS
from tests.integration.sync.builder import VERSION, Builder, Trainer

SPEC = RunSpec(
    steps=STEPS,
    rollouts_per_group=SLOTS,
    groups_per_step=GROUPS,
    min_rollouts=MIN_ROLLOUTS,
    staleness=STALENESS,
    max_attempts=MAX_ATTEMPTS,
)
_numbers = itertools.count(1)


class World:
    """One run of its own on an app that many share. Calls are coroutines; `do` runs one."""

    def __init__(self, runner: asyncio.Runner, shared: Builder) -> None:
        self._runner = runner
        self.run = f"model-{next(_numbers)}"
        self.build = Builder(shared.app, shared.client, self.run, SPEC)
        self.do(self.build.client.declare_run(self.run, SPEC))

    def do(self, call: Awaitable):
        """The answer; for an error its wire type."""

        async def answered():
            try:
                return await call
            except TandemError as error:
                return error.type

        return self._runner.run(answered())

    def run_now(self, work: Coroutine) -> object:
        """The result of `work`; an error is raised."""
        return self._runner.run(work)

    def id(self, *parts: object) -> str:
        """A UUID for a name of the model."""
        return derived_id(self.run, *parts)

    async def open_group(self, id: str, step: int, index: int) -> str:
        body = GroupOpen(run=self.run, step=step, index=index, task_id="task")
        return (await self.build.client.open_group(self.id(id), body)).state

    async def report(self, id: str, group: str, slot: int, status: str, names: tuple[str, ...]) -> bool | str:
        fields: dict = {"run": self.run, "group": self.id(group), "slot": slot, "status": status}
        fields["executor_trajectories"] = tuple(map(self.id, names))
        if status == "aborted":
            fields["reason"] = "executor-failed"
        else:
            fields |= {
                "planner_trajectory": self.id(id, "planner"),
                "r_format": 1,
                "r_correct": 0.5,
                "version": VERSION,
            }
        item = RolloutItem(id=self.id(id), body=RolloutReport(**fields))
        return _only(await self.build.client.submit_rollouts([item]))

    async def score(self, id: str, rollout: str, body: tuple) -> bool | str:
        status, tokens = body
        fields: dict = {"run": self.run, "rollout": self.id(rollout), "tokens": tokens, "version": VERSION}
        fields |= {"status": status, "reason": "judge-failed"} if status == "unscored" else {"r_format": 0}
        item = TrajectoryItem(id=self.id(id), body=TrajectoryReport(**fields))
        return _only(await self.build.client.submit_trajectories([item]))

    def trainer(self, role: str, worker: str, epoch: int) -> Trainer:
        """A trainer of either role under any epoch."""
        trainer = self.build.trainer(role, worker)  # ty: ignore[invalid-argument-type]
        trainer.epoch = epoch
        return trainer

    async def lease(self, role: str, worker: str, epoch: int) -> int | str | None:
        answer = await self.trainer(role, worker, epoch).lease()
        return "finished" if answer.finished else answer.delivery.step if answer.delivery else None

    async def ack(self, role: str, epoch: int, step: int, outcome: str, batch: dict[str, bool]) -> str:
        """`batch`: the rows of the delivery by their names, and whether each can be trained on."""
        ids = {self.id(name, "planner") if role == "planner" else self.id(name): good for name, good in batch.items()}
        trained = outcome == "trained"
        fates = {id: 1 if good and trained else "all-dead" for id, good in ids.items()}
        reason = None if trained else "all-dead"
        body = Ack(epoch=epoch, step=step, outcome=outcome, reason=reason, updates=step, fates=fates)  # ty: ignore[invalid-argument-type]
        await self.build.client.ack(self.run, role, body)  # ty: ignore[invalid-argument-type]
        return "ok"

    async def expire(self, role: str) -> None:
        await self.build.expire_lease(role)  # ty: ignore[invalid-argument-type]

    async def orphan(self) -> None:
        """The deadline of what waits for its rollout is past."""
        await self.build.sql(
            "UPDATE trajectories SET orphan_at = now() - interval '1 s' WHERE run = :run AND group_id IS NULL",
            run=self.run,
        )

    async def sweep(self) -> None:
        await reaper.sweep(self.build.app.state.service.database)

    async def tables(self) -> dict[str, set[tuple]]:
        """All that the model says, as rows."""
        return {name: set(map(tuple, await self.build.sql(sql, run=self.run))) for name, sql in TABLES.items()}


TABLES = {
    "run": "SELECT state FROM runs WHERE run = :run",
    "groups": """
        SELECT id::text, state, scoring,
            (SELECT count(*) FROM rollouts r WHERE r.group_id = g.id AND r.state <> 'late'), final
        FROM groups g WHERE run = :run""",
    "rollouts": "SELECT id::text, state FROM rollouts WHERE run = :run",
    "trajectories": "SELECT id::text, state, accepted, group_id::text FROM trajectories WHERE run = :run",
    "deliveries": "SELECT role, step, state, attempts, outcome FROM deliveries WHERE run = :run",
    "streams": "SELECT role, epoch, worker, acked_step, live_step FROM streams WHERE run = :run",
}


def _only(result) -> bool | str:
    (item,) = result.items
    if item.problem is not None:
        return item.problem["type"].removeprefix("urn:tandem:")
    return item.accepted
