"""The real client, which writes down in the ledger what the service has answered."""

import time
from collections.abc import Sequence

from shared.client import SyncClient
from shared.schemas import Role
from shared.schemas.rollout import (
    Accepted,
    BatchResult,
    GroupOpen,
    GroupView,
    ItemResult,
    RolloutItem,
    TrajectoryItem,
)
from shared.schemas.stream import Ack, PolicyPublish, Resumed, ResumeRequest
from tests.faults.ledger import Ledger


class RecordingClient(SyncClient):
    """A `SyncClient`; each acknowledged write is in `ledger` before the caller goes on."""

    ledger: Ledger

    async def open_group(self, group: str, body: GroupOpen) -> GroupView:
        view = await super().open_group(group, body)
        self.ledger.record({"write": "group", "id": group, "body": body.model_dump(mode="json")})
        return view

    async def submit_rollouts(self, items: Sequence[RolloutItem]) -> BatchResult:
        result = await super().submit_rollouts(items)
        self._record("rollout", items, result)
        return result

    async def submit_trajectories(self, items: Sequence[TrajectoryItem]) -> BatchResult:
        result = await super().submit_trajectories(items)
        self._record("trajectory", items, result)
        return result

    async def put_rollout(self, item: RolloutItem) -> None:
        """Submit one by itself, as a caller without our client does; the service may gather several such."""
        self._record("rollout", [item], await self._put(f"/v1/rollouts/{item.id}", item))

    async def put_trajectory(self, item: TrajectoryItem) -> None:
        """Likewise."""
        self._record("trajectory", [item], await self._put(f"/v1/trajectories/{item.id}", item))

    async def _put(self, path: str, item: RolloutItem | TrajectoryItem) -> BatchResult:
        answer = await self._call("PUT", path, item.body, Accepted)
        return BatchResult(items=(ItemResult(id=item.id, status=200, accepted=answer.accepted),))

    async def resume(self, run: str, role: Role, body: ResumeRequest) -> Resumed:
        resumed = await super().resume(run, role, body)
        self.ledger.record({"write": "resume", "run": run, "role": role, "epoch": resumed.epoch, "step": body.step})
        return resumed

    async def ack(self, run: str, role: Role, body: Ack) -> None:
        sent = time.monotonic()
        await super().ack(run, role, body)
        place = {"run": run, "role": role, "epoch": body.epoch, "step": body.step}
        self.ledger.record({"write": "ack", **place, "outcome": body.outcome, "sent": sent})

    async def publish(self, run: str, role: Role, epoch: int, step: int, body: PolicyPublish) -> None:
        await super().publish(run, role, epoch, step, body)
        place = {"run": run, "role": role, "epoch": epoch, "step": step}
        self.ledger.record({"write": "version", **place, "checksum": body.checksum})

    def _record(self, kind: str, items: Sequence[RolloutItem | TrajectoryItem], result: BatchResult) -> None:
        answered = zip(items, result.items, strict=True)
        self.ledger.record(
            *(
                {"write": kind, "id": item.id, "accepted": answer.accepted, "body": item.body.model_dump(mode="json")}
                for item, answer in answered
                if answer.status == 200
            )
        )
