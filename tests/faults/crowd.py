"""Random calls of clients that do not wait for one another, on one run."""

import asyncio

from shared.errors import Conflict, InvalidInput
from shared.ids import derived_id
from shared.schemas import ROLES
from shared.schemas.rollout import GroupOpen, RolloutItem
from sync_service import reaper
from tests.faults.model import GROUPS, SLOTS, STEPS
from tests.faults.trainer import ack_of, trainable
from tests.integration.sync.builder import Builder, Trainer

Call = tuple[str, int, int, int]
KINDS = ("open", "report", "score", "both", "train", "train", "late")


class Crowd:
    """One run and what its clients may do to it; what is refused is refused."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def id(self, *parts: object) -> str:
        """The id of a place."""
        return derived_id(self.build.run, *parts)

    async def follow(self, number: int, script: list[Call]) -> None:
        """One client's calls, in order."""
        for kind, a, b, c in script:
            try:
                await getattr(self, kind)(number, a, b, c)
            except (Conflict, InvalidInput):
                continue

    async def open(self, _: int, a: int, b: int, c: int) -> None:
        step, index = 1 + a % STEPS, b % GROUPS
        body = GroupOpen(run=self.build.run, step=step, index=index, task_id="task")
        await self.build.client.open_group(self.id(step, index), body)

    async def report(self, _: int, a: int, b: int, c: int) -> None:
        await self.build.client.submit_rollouts([self._rollout(a, b, slot) for slot in range(c % SLOTS + 1)])

    def _rollout(self, a: int, b: int, slot: int) -> RolloutItem:
        step, index = 1 + a % STEPS, b % GROUPS
        id, group = self.id(step, index, slot), self.id(step, index)
        names = tuple(self.id(id, k) for k in range(slot))
        return self.build.rollout(group, slot, id=id, planner_trajectory=self.id(id), executor_trajectories=names)

    async def score(self, _: int, a: int, b: int, c: int) -> None:
        rollouts = [self._rollout(a, b, slot) for slot in range(SLOTS)]
        scores = [score for rollout in rollouts for score in self.build.scores(rollout)]
        await self.build.client.submit_trajectories(scores[c % len(scores) :])

    async def both(self, number: int, a: int, b: int, c: int) -> None:
        await self.open(number, a, b, c)
        await asyncio.gather(self.report(number, a, b, SLOTS - 1), self.score(number, a, b, 0))

    async def late(self, _: int, a: int, b: int, c: int) -> None:
        await self.build.pass_deadline("deadline" if c % 2 else "score_deadline", self.id(1 + a % STEPS, b % GROUPS))
        await reaper.sweep(self.build.app.state.service.database)

    async def train(self, number: int, a: int, b: int, c: int) -> None:
        trainer = Trainer(self.build.client, self.build.run, ROLES[a % 2], f"worker-{number}")
        status = await self.build.client.status(self.build.run)
        await trainer.resume(max(0, status.roles[trainer.role].acked_step - (b == 0)))
        try:
            await self._steps(trainer, 1 + c % 3)
        finally:
            if b % 3:
                await trainer.release("trainer-failed" if b % 4 == 1 and number == 0 else None)

    async def _steps(self, trainer: Trainer, most: int) -> None:
        for _ in range(most):
            delivery = (await trainer.lease()).delivery
            if delivery is None:
                return
            ack = ack_of(delivery, trainable(delivery), delivery.step)
            await self.build.client.ack(self.build.run, trainer.role, ack)
            await trainer.confirm(delivery.step)

    async def finish(self) -> None:
        """Close what is open, and train the rest."""
        run, client = self.build.run, self.build.client
        await client.drain(run)
        await self.build.sql("UPDATE streams SET expires_at = now() WHERE run = :run AND worker IS NOT NULL", run=run)
        await self.build.sql("UPDATE groups SET deadline = now(), score_deadline = now() WHERE run = :run", run=run)
        await self.build.sql("UPDATE trajectories SET orphan_at = now() WHERE run = :run AND group_id IS NULL", run=run)
        for _ in range(2):
            await reaper.sweep(self.build.app.state.service.database)
        for row in await self.build.sql("SELECT id::text FROM deliveries WHERE run = :run AND state = 'dead'", run=run):
            await self.build.post(f"/v1/deliveries/{row.id}:requeue")
        for role in ROLES:
            trainer = self.build.trainer(role, "last")
            await trainer.resume((await client.status(run)).roles[role].acked_step)
            await self._steps(trainer, STEPS)
