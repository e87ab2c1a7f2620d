"""Builds what the tests of the sync service need, through the real client: groups, rollouts, scores, acks."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fastapi import FastAPI
from sqlalchemy import text

from shared.client import SyncClient
from shared.ids import new_id
from shared.schemas import PolicyVersion, Role
from shared.schemas.rollout import (
    BatchResult,
    GroupOpen,
    GroupView,
    RolloutItem,
    RolloutReport,
    TrajectoryItem,
    TrajectoryReport,
)
from shared.schemas.run import RunSpec
from shared.schemas.stream import (
    Ack,
    DeliveryView,
    LeaseAnswer,
    LeaseRequest,
    PolicyPublish,
    ReleaseRequest,
    ResumeRequest,
    StreamClaim,
)

VERSION = PolicyVersion(epoch=1, step=0, updates=0)


def checksum(word: str) -> str:
    """A checksum that stands for weights called `word`."""
    return hashlib.sha256(word.encode()).hexdigest()


@dataclass
class Trainer:
    """A trainer that trains nothing: it resumes, leases, acks and confirms."""

    client: SyncClient
    run: str
    role: Role
    worker: str
    epoch: int = 0
    updates: int = 0

    async def resume(self, step: int = 0, *, pending: Ack | None = None, weights: str | None = None) -> int:
        """Take the stream from `step`."""
        request = ResumeRequest(
            worker=self.worker,
            step=step,
            updates=step,
            checksum=checksum(weights or f"{self.role} {step}"),
            pending_ack=pending,
        )
        self.epoch = (await self.client.resume(self.run, self.role, request)).epoch
        return self.epoch

    async def lease(self, wait_s: float = 0.0) -> LeaseAnswer:
        """Whatever the service answers."""
        request = LeaseRequest(worker=self.worker, epoch=self.epoch, wait_s=wait_s)
        return await self.client.lease(self.run, self.role, request)

    async def delivery(self, wait_s: float = 0.0) -> DeliveryView:
        """The next delivery, which must be there."""
        answer = await self.lease(wait_s)
        assert answer.delivery is not None
        return answer.delivery

    def ack_of(self, delivery: DeliveryView, *, skipped: str | None = None, drop: Iterable[str] = ()) -> Ack:
        """An ack that trains every row with multiplicity 1, but for `drop`, or skips them all."""
        dropped = set(drop)
        return Ack(
            epoch=self.epoch,
            step=delivery.step,
            outcome="skipped" if skipped else "trained",
            reason=skipped,
            updates=delivery.step,
            fates={id: skipped or ("dead-group" if id in dropped else 1) for id in owned(delivery)},
            statistics={"reward": 0.5},
            histograms={"calls": {"0": 1, "1": 2}},
        )

    async def ack(self, delivery: DeliveryView, *, skipped: str | None = None) -> Ack:
        """Ack a delivery."""
        ack = self.ack_of(delivery, skipped=skipped)
        await self.client.ack(self.run, self.role, ack)
        return ack

    async def confirm(self, step: int, *, weights: str | None = None) -> None:
        """The samplers have loaded `step`."""
        body = PolicyPublish(worker=self.worker, updates=step, checksum=checksum(weights or f"{self.role} {step}"))
        await self.client.publish(self.run, self.role, self.epoch, step, body)

    async def train(self, *, skipped: str | None = None, wait_s: float = 0.0) -> DeliveryView:
        """Lease, ack and, unless it was skipped, confirm one step."""
        delivery = await self.delivery(wait_s)
        await self.ack(delivery, skipped=skipped)
        if skipped is None:
            await self.confirm(delivery.step)
        return delivery

    async def renew(self) -> None:
        """Keep the lease."""
        await self.client.renew(self.run, self.role, StreamClaim(worker=self.worker, epoch=self.epoch))

    async def release(self, error: str | None = None) -> None:
        """Give the stream back."""
        body = ReleaseRequest(worker=self.worker, epoch=self.epoch, error=error)
        await self.client.release(self.run, self.role, body)


def owned(delivery: DeliveryView) -> list[str]:
    """The ids of the trajectories that the delivery's role owns."""
    rollouts = [rollout for group in delivery.groups for rollout in group.rollouts]
    if delivery.role == "planner":
        return [rollout.planner_trajectory for rollout in rollouts if rollout.planner_trajectory]
    return [trajectory.id for rollout in rollouts for trajectory in rollout.executor_trajectories]


@dataclass
class Builder:
    """One run on the real app."""

    app: FastAPI
    client: SyncClient
    run: str = "r1"
    spec: RunSpec = field(default_factory=lambda: RunSpec(steps=3, rollouts_per_group=2, groups_per_step=2))

    async def declare(self, **changes: object) -> "Builder":
        """Declare the run, with `changes` to its spec."""
        self.spec = RunSpec.model_validate(self.spec.model_dump() | changes)
        await self.client.declare_run(self.run, self.spec)
        return self

    def trainer(self, role: Role, worker: str | None = None) -> Trainer:
        """A trainer that has not resumed yet."""
        return Trainer(self.client, self.run, role, worker or f"{role}-1")

    async def open(self, step: int = 1, index: int = 0) -> str:
        """Open the group of a place."""
        group = new_id()
        body = GroupOpen(run=self.run, step=step, index=index, task_id=f"task-{step}-{index}")
        await self.client.open_group(group, body)
        return group

    def rollout(self, group: str, slot: int = 0, *, calls: int = 1, id: str | None = None, **changes) -> RolloutItem:
        """A reported rollout with `calls` executor trajectories of new ids."""
        body = {
            "run": self.run,
            "group": group,
            "slot": slot,
            "planner_trajectory": new_id(),
            "r_format": 1,
            "r_correct": 1.0,
            "executor_trajectories": tuple(new_id() for _ in range(calls)),
            "version": VERSION,
        }
        return RolloutItem(id=id or new_id(), body=RolloutReport(**(body | changes)))

    def aborted(self, group: str, slot: int = 0, reason: str = "executor-unreachable") -> RolloutItem:
        """An aborted rollout."""
        body = RolloutReport(run=self.run, group=group, slot=slot, status="aborted", reason=reason)
        return RolloutItem(id=new_id(), body=body)

    def scores(self, rollout: RolloutItem, **changes) -> list[TrajectoryItem]:
        """A score for each trajectory that the rollout names."""
        return [self.score(rollout.id, id, **changes) for id in rollout.body.executor_trajectories]

    def score(self, rollout: str, id: str | None = None, **changes) -> TrajectoryItem:
        """The score of one trajectory."""
        body = {"run": self.run, "rollout": rollout, "r_format": 1, "r_expert": 0.5, "tokens": 7, "version": VERSION}
        return TrajectoryItem(id=id or new_id(), body=TrajectoryReport(**(body | changes)))

    async def report(self, *rollouts: RolloutItem) -> BatchResult:
        """Submit rollouts, all of which must be answered 200."""
        result = await self.client.submit_rollouts(rollouts)
        assert [item.status for item in result.items] == [200] * len(rollouts), result
        return result

    async def send(self, scores: Sequence[TrajectoryItem]) -> BatchResult:
        """Submit scores, all of which must be answered 200."""
        result = await self.client.submit_trajectories(scores)
        assert [item.status for item in result.items] == [200] * len(scores), result
        return result

    async def fill(self, step: int, *, calls: int = 1, scored: bool = True) -> list[RolloutItem]:
        """Open, report and (if `scored`) score every group of a step."""
        rollouts = []
        for index in range(self.spec.groups_per_step):
            group = await self.open(step, index)
            rollouts += [self.rollout(group, slot, calls=calls) for slot in range(self.spec.rollouts_per_group)]
        await self.report(*rollouts)
        if scored and calls:
            await self.send([score for rollout in rollouts for score in self.scores(rollout)])
        return rollouts

    async def group(self, id: str) -> GroupView:
        """A group as the service sees it."""
        return await self.get(f"/v1/groups/{id}", GroupView)

    async def get(self, path: str, model):
        """Any GET."""
        return await self.client._call("GET", path, None, model)

    async def post(self, path: str):
        """Any POST without a body; the answer's JSON."""
        response = await self.client._send("POST", path, None)
        return response.json() if response.content else None

    async def sql(self, statement: str, **values: object) -> list:
        """A statement on the test's database: to move a deadline, or to look behind the wire."""

        async def work(connection):
            result = await connection.execute(text(statement), values)
            return list(result) if result.returns_rows else []

        return await self.app.state.service.database.transaction(work)

    async def pass_deadline(self, column: str, group: str) -> None:
        """Let a deadline of a group be past, by the database's clock; scores have none while the group is open."""
        runs = f"id = CAST(:id AS uuid) AND {column} IS NOT NULL"
        await self.sql(f"UPDATE groups SET {column} = now() - interval '1 s' WHERE {runs}", id=group)

    async def expire_lease(self, role: Role) -> None:
        """Let the lease of a stream be over."""
        await self.sql(
            "UPDATE streams SET expires_at = now() - interval '1 s' WHERE run = :run AND role = :role",
            run=self.run,
            role=role,
        )
