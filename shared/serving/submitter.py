"""Reports finished trajectories to the sync service, gathered: what came within a few milliseconds is one request.

A trajectory is marked as settled once the service has answered for its report: so nothing is lost while the process
lives, and a restarted one reports what was never answered.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import structlog

from shared.errors import Unavailable
from shared.policy.store import TrajectoryStore
from shared.schemas.rollout import BatchResult, ItemResult

log = structlog.get_logger()

WINDOW_S = 0.005
MOST = 512
RETRY_S = 1.0
RETRY_STATUS = frozenset({429, 503})
SETTLED, ACCEPTED = "settled", "accepted"
"""The fact that says what the sync service answered: `accepted`, `late` or `refused`."""


class _Item(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=_Item)


class Submitter(Generic[Item]):
    """Holds each item until the service has answered for it. `send` is a batch call of `SyncClient`."""

    def __init__(self, send: Callable[[Sequence[Item]], Awaitable[BatchResult]], store: TrajectoryStore) -> None:
        self.trained = True
        """Whether batches will train on what is reported; if not, it may be purged once it is settled."""
        self._send = send
        self._store = store
        self._pending: deque[Item] = deque()
        self._facts: dict[str, dict[str, Any]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, item: Item, facts: dict[str, Any] | None = None) -> None:
        """Take over the delivery of `item`; `facts` are those stored with its trajectory, if it has one."""
        self._pending.append(item)
        if facts is not None:
            self._facts[item.id] = facts
        self._idle.clear()
        self._wake.set()

    async def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is pending; false where `timeout_s` was not enough."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Consumes what was submitted; waits for the next item; is unblocked by `submit`; produces settled reports."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(WINDOW_S)
            self._wake.clear()
            batch = [self._pending.popleft() for _ in range(min(MOST, len(self._pending)))]
            unanswered = await self._deliver(batch)
            self._pending.extendleft(reversed(unanswered))
            if unanswered:
                await asyncio.sleep(RETRY_S)
            if self._pending:
                self._wake.set()
            else:
                self._idle.set()

    async def _deliver(self, batch: list[Item]) -> list[Item]:
        """The items that must be sent again."""
        try:
            result = await self._send(batch)
        except Unavailable as error:
            log.warning("submission-waits", items=len(batch), reason=error.detail)
            return batch
        again = {answer.id for answer in result.items if answer.status in RETRY_STATUS}
        await asyncio.gather(*(self._settle(answer) for answer in result.items if answer.id not in again))
        return [item for item in batch if item.id in again]

    async def _settle(self, answer: ItemResult) -> None:
        if answer.problem is not None:
            log.error("submission-refused", id=answer.id, problem=answer.problem.get("detail"))
        facts = self._facts.pop(answer.id, None)
        if facts is not None:
            outcome = "refused" if answer.problem else ACCEPTED if answer.accepted else "late"
            await self._store.set_facts(answer.id, facts | {SETTLED: outcome})
            if outcome != ACCEPTED or not self.trained:
                await self._store.release([answer.id])
