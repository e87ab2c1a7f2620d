"""The invocations in progress, by id: asking again is safe at any moment.

A second request under an id joins the one in progress; one that is finished is answered from the store; when the last
client has gone before the sampling ended, the invocation is cancelled and leaves nothing, so that its id starts afresh.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from shared.agents.loop import Episode
from shared.errors import BodyConflict, DeadlineExceeded, Unavailable
from shared.schemas.invocation import InvocationAnswer, InvocationRequest
from shared.serving.flights import Flight, Flights


class Work(Protocol):
    """The three parts of an invocation."""

    async def recall(self, invocation: str, request: InvocationRequest) -> InvocationAnswer | None:
        """The answer of one that was finished before, by a past process too."""
        ...

    async def sample(self, request: InvocationRequest) -> Episode:
        """Run the tool loop."""
        ...

    async def keep(self, invocation: str, request: InvocationRequest, episode: Episode) -> InvocationAnswer:
        """Store what was sampled, and answer."""
        ...


@dataclass(slots=True)
class _Running:
    request: InvocationRequest
    task: asyncio.Task[InvocationAnswer] | None = None
    waiting: int = 0
    sampled: bool = False


class Invocations:
    """Runs `work` once for each id, any number of ids at once."""

    def __init__(self, work: Work, deadline_s: float, flights: Flights | None = None) -> None:
        self._work = work
        self._deadline_s = deadline_s
        self._flights = flights or Flights("invocation")
        self._running: dict[str, _Running] = {}

    async def answer(self, invocation: str, request: InvocationRequest) -> InvocationAnswer:
        """Start, join or recall. BodyConflict: another request came under this id; Unavailable: it could not end."""
        running = self._running.get(invocation) or self._start(invocation, request)
        if running.request != request:
            raise BodyConflict(f"invocation {invocation} is in progress with another request")
        assert running.task is not None
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            ours = asyncio.current_task()
            if running.task.cancelled() and not (ours and ours.cancelling()):
                raise Unavailable("the executor is stopping") from None
            raise
        finally:
            running.waiting -= 1
            if not running.waiting:
                self._abandon(invocation, running)

    async def close(self) -> None:
        """Cancel what has not been sampled to its end, and wait until the rest is stored."""
        ending = dict(self._running)
        for invocation, running in ending.items():
            self._abandon(invocation, running)
        await asyncio.gather(*(running.task for running in ending.values() if running.task), return_exceptions=True)

    def _start(self, invocation: str, request: InvocationRequest) -> _Running:
        running = self._running[invocation] = _Running(request)
        running.task = asyncio.create_task(self._run(invocation, running))
        running.task.add_done_callback(lambda _: self._forget(invocation, running))
        return running

    async def _run(self, invocation: str, running: _Running) -> InvocationAnswer:
        request = running.request
        stored = await self._work.recall(invocation, request) if request.evaluation is None else None
        if stored is not None:
            return stored
        with self._flights.one() as flight:
            return await self._work_on(invocation, running, flight)

    async def _work_on(self, invocation: str, running: _Running, flight: Flight) -> InvocationAnswer:
        try:
            async with asyncio.timeout(self._deadline_s):
                episode = await self._work.sample(running.request)
        except asyncio.CancelledError:
            flight.outcome = "cancelled"
            raise
        except TimeoutError:
            flight.outcome = "deadline"
            raise DeadlineExceeded(f"the invocation took longer than {self._deadline_s:g} s") from None
        running.sampled = True  # from here on nothing cancels it: it will be stored, scored and submitted
        answer = await self._work.keep(invocation, running.request, episode)
        flight.outcome = answer.status
        return answer

    def _abandon(self, invocation: str, running: _Running) -> None:
        if running.task and not running.sampled:
            running.task.cancel()
            self._forget(invocation, running)

    def _forget(self, invocation: str, running: _Running) -> None:
        if self._running.get(invocation) is running:
            del self._running[invocation]
