"""Callers that submit one item each, gathered into one request: what costs is the request, not the item."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.errors import TandemError, Unavailable, from_problem
from shared.schemas.rollout import BatchResult, ItemResult

WINDOW_S = 0.002
"""How long the first item waits for others."""
MOST = 512
IN_FLIGHT = 2
"""Requests on their way at once; what comes meanwhile goes into the next one."""

T = TypeVar("T")


class Gatherer(Generic[T]):
    """`send` is a batch call, which answers for each item in the order of the request."""

    def __init__(self, send: Callable[[Sequence[T]], Awaitable[BatchResult]]) -> None:
        self._send = send
        self._pending: deque[tuple[T, asyncio.Future[ItemResult]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> ItemResult:
        """The outcome of this item; its own error where it was refused or the request failed."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[ItemResult] = loop.create_future()
        self._pending.append((item, answered))
        if len(self._requests) < IN_FLIGHT and self._timer is None:
            self._timer = loop.call_later(WINDOW_S, self._start)
        return await answered

    async def close(self) -> None:
        """Give up what is not answered yet."""
        if self._timer is not None:
            self._timer.cancel()
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        _fail([answered for _, answered in self._pending], Unavailable("the client is closed"))
        self._pending.clear()

    def _start(self) -> None:
        self._timer = None
        while self._pending and len(self._requests) < IN_FLIGHT:
            batch = [self._pending.popleft() for _ in range(min(MOST, len(self._pending)))]
            request = asyncio.create_task(self._deliver(batch))
            self._requests.add(request)
            request.add_done_callback(self._ended)

    def _ended(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        if self._timer is None and self._pending:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._start)

    async def _deliver(self, batch: list[tuple[T, asyncio.Future[ItemResult]]]) -> None:
        futures = [answered for _, answered in batch]
        try:
            result = await self._send([item for item, _ in batch])
            for answered, outcome in zip(futures, result.items, strict=True):
                _settle(answered, outcome)
        except asyncio.CancelledError:
            _fail(futures, Unavailable("the client is closed"))
            raise
        except Exception as error:  # noqa: BLE001 - the outermost boundary of a request: its callers raise it
            _fail(futures, error)


def _fail(futures: list[asyncio.Future[ItemResult]], error: Exception) -> None:
    for answered in futures:
        if not answered.done():
            answered.set_exception(error.again() if isinstance(error, TandemError) else error)


def _settle(answered: asyncio.Future[ItemResult], outcome: ItemResult) -> None:
    if answered.done():  # its caller has gone
        return
    if outcome.problem is None:
        answered.set_result(outcome)
    else:
        answered.set_exception(from_problem(outcome.problem, outcome.status))
