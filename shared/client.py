"""`SyncClient`: the sync service's calls, as methods. Retries what may be retried, raises the classes of shared.errors.

Every call is idempotent by id, so a retry after a lost answer is safe. Tests fake the wire and not the client:
give it `transport=httpx.ASGITransport(app)`.
"""

from collections.abc import Sequence
from typing import TypeVar

import httpx
import stamina
from pydantic import BaseModel

from shared.errors import Overloaded, TandemError, Unavailable, from_problem
from shared.schemas import Role
from shared.schemas.base import Page
from shared.schemas.rollout import (
    BatchResult,
    GroupOpen,
    GroupView,
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

M = TypeVar("M", bound=BaseModel)
RETRIED: dict[int, type[TandemError]] = {429: Overloaded, 502: Unavailable, 503: Unavailable, 504: Unavailable}
"""The statuses that may be tried again, and what they mean from a proxy, which knows no problem type of ours."""


def _worth_retrying(error: Exception) -> bool:
    return isinstance(error, httpx.TransportError) or (
        isinstance(error, TandemError) and error.extra.get("retry", False)
    )


class SyncClient:
    """One connection pool to one sync service; use it as an async context manager.

    `retry_for_s` bounds how long a call is tried again before `Unavailable` is raised.
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
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(base_url=base_url, transport=transport, timeout=timeout_s, headers=headers)
        self._retry_for_s = retry_for_s

    async def __aenter__(self) -> "SyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # runs

    async def declare_run(self, run: str, spec: RunSpec) -> RunView:
        """Declare a run; the same spec again is fine."""
        return await self._call("PUT", f"/v1/runs/{run}", spec, RunView)

    async def run(self, run: str) -> RunView:
        """The run's spec and state; NotFound before it is declared."""
        return await self._call("GET", f"/v1/runs/{run}", None, RunView)

    async def status(self, run: str, *, open_step: int | None = None, wait_s: float = 0.0) -> RunStatus:
        """Where the run stands; with `open_step`, held until that step may be opened or `wait_s` is over."""
        query = f"?wait={wait_s}" + (f"&open_step={open_step}" if open_step is not None else "")
        return await self._call("GET", f"/v1/runs/{run}/status{query}", None, RunStatus, extra_s=wait_s)

    async def steps(self, run: str, *, after: int = 0) -> list[StepStatistics]:
        """The statistics of every acked step above `after`, both roles, in order."""
        return await self._list(f"/v1/runs/{run}/steps?after={after}", Page[StepStatistics])

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

    async def groups(self, run: str, *, state: str = "open") -> list[GroupView]:
        """The run's groups in one state."""
        return await self._list(f"/v1/runs/{run}/groups?state={state}", Page[GroupView])

    async def submit_rollouts(self, items: Sequence[RolloutItem]) -> BatchResult:
        """Submit up to 512 final rollouts."""
        return await self._call("POST", "/v1/rollouts:batch", RolloutBatch(items=tuple(items)), BatchResult)

    async def submit_trajectories(self, items: Sequence[TrajectoryItem]) -> BatchResult:
        """Submit up to 512 finished executor trajectories."""
        return await self._call("POST", "/v1/trajectories:batch", TrajectoryBatch(items=tuple(items)), BatchResult)

    # streams

    async def resume(self, run: str, role: Role, body: ResumeRequest) -> Resumed:
        """Take the stream under a new epoch."""
        return await self._call("POST", f"/v1/runs/{run}/streams/{role}:resume", body, Resumed)

    async def lease(self, run: str, role: Role, body: LeaseRequest) -> LeaseAnswer:
        """The next delivery, waited for up to `body.wait_s`."""
        return await self._call("POST", f"/v1/runs/{run}/streams/{role}:lease", body, LeaseAnswer, extra_s=body.wait_s)

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

    async def _list(self, path: str, pages: type[Page[M]]) -> list[M]:
        items: list[M] = []
        cursor: str | None = ""
        while cursor is not None:
            response = await self._send("GET", f"{path}&cursor={cursor}" if cursor else path, None, 0.0)
            page = pages.model_validate_json(response.content)
            items.extend(page.items)
            cursor = page.next
        return items

    async def _call(self, method: str, path: str, body: BaseModel | None, answer: type[M], extra_s: float = 0.0) -> M:
        response = await self._send(method, path, body, extra_s)
        return answer.model_validate_json(response.content)

    async def _send(self, method: str, path: str, body: BaseModel | None, extra_s: float = 0.0) -> httpx.Response:
        content = body.model_dump_json().encode() if body is not None else None
        headers = {"content-type": "application/json"} if content is not None else {}
        timeout = httpx.Timeout(self._http.timeout.read or 30.0) if not extra_s else httpx.Timeout(30.0 + extra_s)
        try:
            async for attempt in stamina.retry_context(
                on=_worth_retrying, timeout=self._retry_for_s, attempts=None, wait_initial=0.05, wait_max=5.0
            ):
                with attempt:
                    response = await self._http.request(method, path, content=content, headers=headers, timeout=timeout)
                    _raise_for(response)
                    return response
        except httpx.TransportError as error:
            raise Unavailable(f"the sync service at {self._http.base_url} cannot be reached: {error!r}") from error
        raise Unavailable()


def _raise_for(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        body = response.json()
    except ValueError:
        body = None
    error = from_problem(body if isinstance(body, dict) else {"detail": response.text[:200]}, response.status_code)
    if type(error) is TandemError and response.status_code in RETRIED:
        error = RETRIED[response.status_code](error.detail, **error.extra)
    error.extra["retry"] = response.status_code in RETRIED
    raise error
