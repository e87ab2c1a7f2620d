"""Reports to the sync service: kept in the spool first, then sent in order, many in a request, until each is answered.

So nothing is lost when the process is killed or the service is away: what was never acknowledged is sent after a
restart. Every report is by id, so sending one twice is safe.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import structlog
from pydantic import ValidationError

from shared.errors import RETRY_LATER, InvalidInput, Unavailable
from shared.http.body import faults
from shared.policy.store import TrajectoryStore
from shared.schemas.rollout import BatchResult, ItemResult, RolloutItem, TrajectoryItem
from shared.serving.spool import Operation, Spool

log = structlog.get_logger()

WINDOW_S = 0.005
MOST = 512
RETRY_S = 1.0

Item = TypeVar("Item", RolloutItem, TrajectoryItem)
Send = Callable[[Sequence[Item]], Awaitable[BatchResult]]


class Submitter(Generic[Item]):
    """Holds each item until the service has answered for it. `send` is a batch call of `SyncClient`."""

    def __init__(self, send: Send, kind: type[Item], store: TrajectoryStore) -> None:
        self.trained = True
        """Whether batches will train on what is reported; if not, it may be purged once it is answered."""
        self.refused = 0
        """How many the service has refused for good."""
        self._send = send
        self._kind = kind
        self._store = store
        self._spool = Spool(store.writer)
        self._pending: deque[Item] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """How many wait to be sent."""
        return len(self._pending)

    async def recover(self) -> None:
        """Take over what a past process left; before the first `submit`."""
        for id, body in await self._spool.waiting():
            try:
                self._add(self._kind.model_validate_json(body))
            except ValidationError as error:
                await self._refuse(id, InvalidInput(f"no report of this version: {faults(error)}").problem())

    async def submit(self, item: Item, write: Callable[[Operation], Awaitable[None]] | None = None) -> None:
        """Take over the delivery of `item`: on return it is on disk.

        `write` stores what belongs to it, and runs the given operation in the same transaction. Overloaded: no room.
        """
        body = item.model_dump_json()
        if write is None:
            await self._spool.keep(item.id, body)
        else:
            await write(self._spool.keeping(item.id, body))
        self._add(item)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until nothing is pending; false where `timeout_s` was not enough."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Consumes what was submitted; waits for the next item; is unblocked by `submit`; produces answered reports.

        An error that is about this client and not about an item (its key, its version) ends the loop.
        """
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

    def _add(self, item: Item) -> None:
        self._pending.append(item)
        self._idle.clear()
        self._wake.set()

    async def _deliver(self, batch: list[Item]) -> list[Item]:
        """The items that must be sent again."""
        try:
            result = await self._send(batch)
        except Unavailable as error:
            log.warning("submission-waits", items=len(batch), reason=error.detail)
            return batch
        again = {answer.id for answer in result.items if answer.status in RETRY_LATER}
        await self._settle([answer for answer in result.items if answer.id not in again])
        return [item for item in batch if item.id in again]

    async def _settle(self, answers: Sequence[ItemResult]) -> None:
        """The answers are final. Nothing trains on what was refused or came late: it may make room."""
        useless = [answer.id for answer in answers if not (answer.accepted and self.trained)]
        if useless:
            await self._store.release(useless)
        for answer in answers:
            if answer.problem is not None:
                await self._refuse(answer.id, answer.problem)
        await self._spool.acknowledged(answer.id for answer in answers)

    async def _refuse(self, id: str, problem: dict[str, Any]) -> None:
        self.refused += 1
        log.error("submission-refused", id=id, problem=problem.get("detail"), refused=self.refused)
        await self._spool.refused(id, problem)
