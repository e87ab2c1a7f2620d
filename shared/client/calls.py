"""`SyncClient`: the sync service's calls, as methods, which raise the classes of shared.errors.

Every call is idempotent by id, so a retry after a lost answer is safe. Tests fake the wire and not the client:
give it `transport=httpx.ASGITransport(app)`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import httpx
from pydantic import BaseModel

from shared.client.gather import MOST, Gatherer
from shared.client.wire import Wire
from shared.errors import InvalidInput, from_problem
from shared.http.wire import wire
from shared.schemas import Role
from shared.schemas.base import Page
from shared.schemas.rollout import (
    BatchResult,
    GroupBatch,
    GroupBatchResult,
    GroupItem,
    GroupOpen,
    GroupResult,
    GroupView,
    ItemResult,
    RolloutBatch,
    RolloutItem,
    TrajectoryBatch,
    TrajectoryItem,
)
from shared.schemas.run import RunSpec, RunStatus, RunView
from shared.schemas.stream import (
    Ack,
    Heartbeat,
    LeaseAnswer,
    LeaseRequest,
    PolicyPublish,
    ReleaseRequest,
    Renewed,
    Resumed,
    ResumeRequest,
    StepStatistics,
    StreamClaim,
)
from shared.schemas.verdict import Verdict

M = TypeVar("M", bound=BaseModel)
I = TypeVar("I", RolloutItem, TrajectoryItem)  # noqa: E741 - an item


class SyncClient:
    """One connection pool to one sync service; use it as an async context manager.

    A call that cannot be answered now is sent again for up to `retry_for_s`, then it is `DeadlineExceeded`;
    `timeout_s` bounds one attempt. A long poll has the time that it waits on top of both.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout_s: float = 30.0,
        retry_for_s: float = 60.0,
    ) -> None:
        self._wire = Wire(base_url, key, transport or wire(), timeout_s, retry_for_s)
        self._rollouts = Gatherer(self.submit_rollouts)
        self._trajectories = Gatherer(self.submit_trajectories)

    async def __aenter__(self) -> "SyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; a submission that is not answered yet is given up."""
        await self._rollouts.close()
        await self._trajectories.close()
        await self._wire.close()

    # runs

    async def declare_run(self, run: str, spec: RunSpec) -> RunView:
        """Declare a run; the same spec again is fine."""
        return await self._call("PUT", f"/v1/runs/{run}", spec, RunView)

    async def run(self, run: str) -> RunView:
        """The run's spec and state; NotFound before it is declared."""
        return await self._call("GET", f"/v1/runs/{run}", None, RunView)

    async def status(
        self, run: str, *, open_step: int | None = None, wait_s: float = 0.0, counts: bool = True
    ) -> RunStatus:
        """Where the run stands; with `open_step`, held until that step may be opened or `wait_s` is over.

        Without `counts` it costs the same however long the run is.
        """
        query = f"?wait={wait_s}&counts={str(counts).lower()}"
        query += f"&open_step={open_step}" if open_step is not None else ""
        return await self._call("GET", f"/v1/runs/{run}/status{query}", None, RunStatus, hold_s=wait_s)

    async def steps(self, run: str, *, after: int = 0) -> list[StepStatistics]:
        """The statistics of every acked step above `after`, both roles, in order."""
        return await self._list(f"/v1/runs/{run}/steps?after={after}", Page[StepStatistics])

    async def verdict(self, run: str) -> Verdict:
        """Whether the run is healthy, why not, what may be done, and when it ends."""
        return await self._call("GET", f"/v1/runs/{run}/verdict", None, Verdict)

    async def drain(self, run: str) -> RunView:
        """Open nothing more; the run finishes when all that was cut is acked."""
        return await self._call("POST", f"/v1/runs/{run}:drain", None, RunView)

    async def fail(self, run: str, reason: str) -> RunView:
        """End the run as failed."""
        query = httpx.QueryParams({"reason": reason})
        return await self._call("POST", f"/v1/runs/{run}:fail?{query}", None, RunView)

    # groups, rollouts, trajectories

    async def open_group(self, group: str, body: GroupOpen) -> GroupView:
        """Open a group; StalenessBound where the step is too far ahead."""
        return await self._call("PUT", f"/v1/groups/{group}", body, GroupView)

    async def open_groups(self, items: Sequence[GroupItem]) -> list[GroupView]:
        """Open groups, 512 in a request; each is judged alone, and the error of the first that is refused is raised."""
        opened: list[GroupView] = []
        for at in range(0, len(items), MOST):
            body = GroupBatch(items=tuple(items[at : at + MOST]))
            answer = await self._call("POST", "/v1/groups:batch", body, GroupBatchResult)
            opened += map(_opened, answer.items)
        return opened

    async def groups(self, run: str, *, state: str = "open") -> list[GroupView]:
        """The run's groups in one state."""
        return await self._list(f"/v1/runs/{run}/groups?state={state}", Page[GroupView])

    async def submit_rollouts(self, items: Sequence[RolloutItem]) -> BatchResult:
        """Submit up to 512 final rollouts; each has a status of its own."""
        return await self._batch("/v1/rollouts:batch", lambda part: RolloutBatch(items=part), tuple(items))

    async def submit_trajectories(self, items: Sequence[TrajectoryItem]) -> BatchResult:
        """Submit up to 512 finished executor trajectories; each has a status of its own."""
        return await self._batch("/v1/trajectories:batch", lambda part: TrajectoryBatch(items=part), tuple(items))

    async def submit_rollout(self, item: RolloutItem) -> ItemResult:
        """Submit one, gathered with what others submit meanwhile; raises its own error where it is refused."""
        return await self._rollouts.submit(item)

    async def submit_trajectory(self, item: TrajectoryItem) -> ItemResult:
        """Submit one, gathered with what others submit meanwhile; raises its own error where it is refused."""
        return await self._trajectories.submit(item)

    # streams

    async def resume(self, run: str, role: Role, body: ResumeRequest) -> Resumed:
        """Take the stream under a new epoch."""
        return await self._call("POST", f"/v1/runs/{run}/streams/{role}:resume", body, Resumed)

    async def lease(self, run: str, role: Role, body: LeaseRequest) -> LeaseAnswer:
        """The next delivery, waited for up to `body.wait_s`."""
        return await self._call("POST", f"/v1/runs/{run}/streams/{role}:lease", body, LeaseAnswer, hold_s=body.wait_s)

    async def renew(self, run: str, role: Role, body: StreamClaim) -> Renewed:
        """Keep the lease alive; LeaseLost where it is gone."""
        return await self._call("POST", f"/v1/runs/{run}/streams/{role}:renew", body, Renewed)

    async def ack(self, run: str, role: Role, body: Ack) -> None:
        """The step is done; LeaseLost where another epoch holds the stream."""
        await self._send("POST", f"/v1/runs/{run}/streams/{role}:ack", body)

    async def release(self, run: str, role: Role, body: ReleaseRequest) -> None:
        """Give the stream back."""
        await self._send("POST", f"/v1/runs/{run}/streams/{role}:release", body)

    # policies and workers

    async def publish(self, run: str, role: Role, epoch: int, step: int, body: PolicyPublish) -> None:
        """Confirm that this role's samplers have loaded version (epoch, step)."""
        await self._send("PUT", f"/v1/runs/{run}/policies/{role}/{epoch}.{step}", body)

    async def heartbeat(self, run: str, worker: str, body: Heartbeat) -> None:
        """Say that a worker is alive, and what it does."""
        await self._send("PUT", f"/v1/runs/{run}/workers/{worker}", body)

    # the wire

    async def _batch(self, path: str, whole: Callable[[tuple[I, ...]], BaseModel], items: tuple[I, ...]) -> BatchResult:
        """A batch whose body as such is refused (too large) is sent in halves, down to the item that it is about."""
        try:
            return await self._call("POST", path, whole(items), BatchResult)
        except InvalidInput as error:
            if len(items) == 1:
                refused = ItemResult(id=items[0].id, status=error.status, problem=error.problem())
                return BatchResult(items=(refused,))
        middle = len(items) // 2
        halves = [await self._batch(path, whole, half) for half in (items[:middle], items[middle:])]
        return BatchResult(items=halves[0].items + halves[1].items)

    async def _list(self, path: str, pages: type[Page[M]]) -> list[M]:
        items: list[M] = []
        cursor: str | None = ""
        while cursor is not None:
            response = await self._send("GET", f"{path}&cursor={cursor}" if cursor else path, None)
            page = pages.model_validate_json(response.content)
            items.extend(page.items)
            cursor = page.next
        return items

    async def _call(self, method: str, path: str, body: BaseModel | None, answer: type[M], hold_s: float = 0.0) -> M:
        response = await self._send(method, path, body, hold_s)
        return answer.model_validate_json(response.content)

    async def _send(self, method: str, path: str, body: BaseModel | None, hold_s: float = 0.0) -> httpx.Response:
        return await self._wire.send(method, path, body, hold_s)


def _opened(item: GroupResult) -> GroupView:
    if item.group is None:
        raise from_problem(item.problem or {}, item.status)
    return item.group
