"""Requests of one item each, gathered: those that come while a transaction is on its way share the next one.

A transaction costs far more than an item. So the busier the service is, the more items share one; where it is idle, an
item has one for itself, at once. Each run has a queue of its own: none waits for another run's locks.

The client gathers, too (`shared/client/gather.py`): there a request is what costs, two are on their way at once, and a
window lets the first item wait for others. Here nothing waits but for the transaction before it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.errors import TandemError

I = TypeVar("I")  # noqa: E741 - an item
O = TypeVar("O")  # noqa: E741 - what became of it

MOST = 512
"""Items of one transaction."""


class Gatherer(Generic[I, O]):
    """`write` is one transaction: it answers what became of each item, in order; an item is refused alone."""

    def __init__(self, write: Callable[[Sequence[I]], Awaitable[Sequence[O | TandemError]]]) -> None:
        self._write = write
        self._queues: dict[str, deque[tuple[I, asyncio.Future[O]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, run: str, item: I) -> O:
        """What became of this item, committed; raises its own error where it is refused."""
        answered: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(run)
        if queue is None:
            queue = self._queues[run] = deque()
            task = asyncio.create_task(self._work(run, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append((item, answered))
        return await answered

    async def _work(self, run: str, queue: deque[tuple[I, asyncio.Future[O]]]) -> None:
        """Consumes a run's queue, one transaction after another, until it is empty."""
        while queue:
            part = [queue.popleft() for _ in range(min(MOST, len(queue)))]
            await self._settle([item for item, _ in part], [answered for _, answered in part])
        del self._queues[run]

    async def _settle(self, items: list[I], answers: list[asyncio.Future[O]]) -> None:
        try:
            outcomes = await self._write(items)
        except TandemError as error:  # nothing is written: each asks again
            outcomes = [error.again() for _ in items]
        except Exception as error:  # noqa: BLE001 - the outermost boundary of these requests: each raises it by itself
            if len(items) > 1:  # one of them is at fault: the others have nothing to do with it
                for item, answered in zip(items, answers, strict=True):
                    await self._settle([item], [answered])
                return
            _answer(answers[0], error)
            return
        for answered, outcome in zip(answers, outcomes, strict=True):
            _answer(answered, outcome)


def _answer(answered: asyncio.Future, outcome: object) -> None:
    if answered.done():  # its caller has gone
        return
    if isinstance(outcome, Exception):
        answered.set_exception(outcome)
    else:
        answered.set_result(outcome)
