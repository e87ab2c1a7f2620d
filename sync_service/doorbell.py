"""The doorbell: "something changed in this run". Redis carries the ring, never data.

A waiter wakes at a ring, at its poll interval or at the stop of the service, whichever is first, and then looks into
Postgres. So a lost ring, or no Redis at all, costs time and never a result. A ring follows the commit.
"""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Generator, Iterable

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.errors import UserError
from sync_service.tasks import end

log = structlog.get_logger()

CHANNEL = "tandem:changed"
RECONNECT_S = 1.0
SHORTEST = 0.5
"""Of the poll interval, which is the longest wait: waiters that began together do not look together for ever."""
EVERY_RUN = "*"
"""No run has this name: who listens here is woken by each of them."""


class Doorbell:
    """Rings other processes of the service through Redis, and wakes the waiters of this one when they ring.

    `poll_s`: how often waiters look while no Redis is connected; `poll_with_redis_s`: while one is.
    """

    def __init__(self, redis_url: str | None, *, poll_s: float, poll_with_redis_s: float) -> None:
        self._redis = _connect(redis_url) if redis_url else None
        self._poll_s = poll_s
        self._poll_with_redis_s = poll_with_redis_s
        self._connected = False
        self._waiters: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._unsent: set[str] = set()
        self._to_send = asyncio.Event()
        self.stopping = False

    async def run(self) -> None:
        """Carry rings to and from Redis until it is cancelled; nothing to do without one."""
        if self._redis is None:
            return
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._send())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:  # neither ends but by a fault
                task.result()
        finally:
            await end(tasks)
            await self._redis.aclose()

    def ring(self, runs: Iterable[str]) -> None:
        """Say that something changed in `runs`; call it after the commit. Does not wait, and cannot fail."""
        if self._redis is not None:
            self._unsent.update(runs)
            self._to_send.set()

    def stop(self) -> None:
        """Wake every waiter for good: the service ends."""
        self.stopping = True
        for waiters in self._waiters.values():
            for event in waiters:
                event.set()

    @contextlib.contextmanager
    def listening(self, run: str) -> Generator["Waiter"]:
        """A waiter for this run; rings from now on are not missed."""
        event = asyncio.Event()
        self._waiters[run].add(event)
        try:
            yield Waiter(self, event)
        finally:
            self._waiters[run].discard(event)
            if not self._waiters[run]:
                del self._waiters[run]

    @property
    def connected(self) -> bool:
        """Whether Redis carries rings now."""
        return self._connected

    @property
    def interval_s(self) -> float:
        """How long a waiter may go without looking."""
        return self._poll_with_redis_s if self._connected else self._poll_s

    def _wake(self, runs: Iterable[str]) -> None:
        for run in (EVERY_RUN, *runs):
            for event in self._waiters.get(run, ()):
                event.set()

    async def _listen(self) -> None:
        """Consumes rings; waits for Redis; produces wake-ups. A lost connection wakes everybody, and comes back."""
        assert self._redis is not None
        while True:
            try:
                async with self._redis.pubsub() as pubsub:
                    await pubsub.subscribe(CHANNEL)
                    async for message in pubsub.listen():
                        self._connected = True
                        if message["type"] == "message":
                            self._wake(message["data"].split())
            except (RedisError, OSError) as error:
                if self._connected:
                    log.warning("redis is gone; waiters poll", error=repr(error))
            self._connected = False
            self._wake(list(self._waiters))
            await asyncio.sleep(RECONNECT_S)

    async def _send(self) -> None:
        """Consumes what `ring` noted; sends it in one message, however much came while the last one was on its way."""
        assert self._redis is not None
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            runs, self._unsent = self._unsent, set()
            with contextlib.suppress(RedisError, OSError):  # the listener says so; the waiters poll
                await self._redis.publish(CHANNEL, " ".join(runs))


class Waiter:
    """Look, then wait, then look again: `clear` before the look, so that no ring between the two is lost."""

    def __init__(self, bell: Doorbell, event: asyncio.Event) -> None:
        self._bell = bell
        self._event = event

    def clear(self) -> None:
        """Forget rings: the caller looks now."""
        if not self._bell.stopping:
            self._event.clear()

    async def wait(self, at_most_s: float) -> None:
        """Until a ring, the poll interval, `at_most_s`, or the stop of the service."""
        with contextlib.suppress(TimeoutError):
            interval_s = self._bell.interval_s * random.uniform(SHORTEST, 1)
            await asyncio.wait_for(self._event.wait(), min(at_most_s, interval_s))


def _connect(url: str) -> Redis:
    try:
        return Redis.from_url(url, socket_connect_timeout=2, decode_responses=True)
    except ValueError:
        raise UserError("the URL of Redis is no redis://HOST:PORT, rediss:// or unix://") from None
