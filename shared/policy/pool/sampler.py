"""A sampler of several replicas, as its server sees it: one sampler, whose replicas come and go."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from shared.errors import DeadlineExceeded, TandemError, Unavailable
from shared.policy.child import CLOSE_S, START_S
from shared.policy.pool.lifeline import Ground, ThisMachine
from shared.policy.pool.places import Places
from shared.policy.pool.snapshots import Snapshot, Snapshots
from shared.policy.processes import SamplerProcess
from shared.policy.sampler import LOAD_S
from shared.policy.types import Completion, SamplingParams
from shared.schemas.base import PolicyVersion

log = structlog.get_logger()

RESENDS = 2
"""How often a turn is sent again: one that kills its replicas must not kill them for ever."""
RESTARTS = 3
"""Starts of one place that fail in a row, with no replica at any other: then the pool is dead."""
BACKOFF_S = (1.0, 5.0, 30.0)
"""Between the starts of one place that fail; the last for ever."""
CACHE_IS_WORTH = 8
"""How many more turns than the least busy replica the one with a turn's cache may have waiting."""


@dataclass(eq=False, slots=True)
class Replica:
    """A sampler at one of the pool's places, and the weights that it has confirmed; None: the initial ones."""

    place: int
    sampler: SamplerProcess
    weights: Snapshot | None = None
    lost: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Why it takes no more turns."""


class SamplerPool:
    """The `SamplerProcess` protocol over replicas. `start` gives the sampler of a place, not ready yet.

    A place whose replica dies gets another, which takes part once it has the current weights. Turns in flight at a dead
    replica are sent again: to one with the weights that it had, where there is one.
    """

    probes = False

    def __init__(
        self,
        start: Callable[[int], Awaitable[SamplerProcess]],
        places: int,
        scratch: Path,
        ground: Ground | None = None,
    ) -> None:
        """`scratch` is the pool's own folder; `ground` is released at the very end."""
        self.waiting = self.turns = self.tokens = 0
        self._start = start
        self._failures = [0] * places
        self._live: list[Replica] = []
        self._known = Places()
        self._snapshots = Snapshots(scratch)
        self._info: dict[str, Any] = {"replicas": places}
        self._close_s = 0.0
        self._ground = ground or ThisMachine()
        self._wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._first: asyncio.Future[None] = loop.create_future()
        self._death: asyncio.Future[str] = loop.create_future()
        self._keepers = [asyncio.create_task(self._keep(place), name=f"replica-{place}") for place in range(places)]
        for keeper in self._keepers:
            keeper.add_done_callback(self._ended)
        self._watch = asyncio.create_task(self._watch_ground(), name="sampler-ground")

    @property
    def info(self) -> dict[str, Any]:
        """Device, threads and number of parameters of a replica; how many replicas are wanted."""
        return self._info

    async def ready(self) -> None:
        """Wait until one replica samples; raises what kept the first that failed from it."""
        try:
            await asyncio.wait_for(asyncio.shield(self._first), START_S)
        except TimeoutError:
            raise DeadlineExceeded(f"no sampler replica was ready within {START_S:.0f} s") from None

    async def died(self) -> str:
        """Wait until no replica is left and none can be started, and say why. Does not return after `close`."""
        return await asyncio.shield(self._death)

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, checkpoint: Path | None = None
    ) -> Completion:
        """Sample one turn, at the replica that has the turn before it in its cache, or at the least busy one."""
        self.waiting += 1
        try:
            completion = await self._generate(prompt_ids, params, checkpoint)
        finally:
            self.waiting -= 1
        self.turns += 1
        self.tokens += len(completion.token_ids)
        return completion

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        """Load them into every replica; returns their checksum when all have confirmed it.

        A replica that starts later loads them before it takes part. Conflict: two replicas read different bytes.
        """
        snapshot = await self._snapshots.take(folder, version)
        try:
            async with asyncio.timeout(LOAD_S):
                while behind := await self._behind(snapshot):
                    await asyncio.gather(*(self._load(replica, snapshot) for replica in behind))
        except TimeoutError:
            raise DeadlineExceeded(f"not every sampler replica loaded {version} within {LOAD_S:.0f} s") from None
        assert snapshot.checksum is not None
        return snapshot.checksum

    async def statistics(self) -> dict[str, Any]:
        """The live replicas' counts, added up (the largest of `largest_...`), and how many replicas they are."""
        asked = await asyncio.gather(*(self._statistics(replica) for replica in self._live))
        answers = [answer for answer in asked if answer is not None]
        totals: dict[str, Any] = {}
        for key, value in (item for answer in answers for item in answer.items()):
            add = max if key.startswith("largest") else lambda a, b: a + b
            if isinstance(value, int | float):
                totals[key] = add(totals.get(key, 0), value)
        return totals | {"replicas": len(answers)}

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End all replicas, within the bound, those too that are only being started."""
        self._close_s = 0.0 if self._death.done() else timeout_s  # nobody is left to end in order
        self._watch.cancel()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        if not self._first.done() or self._first.exception() is None:
            self._first.cancel()
        self._snapshots.clear()
        await self._ground.release()

    async def _generate(self, prompt_ids: Sequence[int], params: SamplingParams, checkpoint: Path | None) -> Completion:
        place, lost = self._known.find(prompt_ids), None
        for _ in range(RESENDS + 1):
            replica = await self._choose(place, lost)
            try:
                completion = await replica.sampler.generate(prompt_ids, params, checkpoint=checkpoint)
            except DeadlineExceeded:
                raise
            except Unavailable as fault:
                self._lose(replica, fault.detail)
                lost = replica
                continue
            self._known.remember([*prompt_ids, *completion.token_ids], replica.place)
            return completion
        assert lost is not None
        raise Unavailable(f"one turn lost {RESENDS + 1} sampler replicas; the last: {lost.lost.result()}")

    async def _statistics(self, replica: Replica) -> dict[str, Any] | None:
        try:
            return await replica.sampler.statistics()
        except Unavailable:
            return None  # it died meanwhile

    async def _choose(self, place: int | None, lost: Replica | None) -> Replica:
        await self._until_live()
        choice = [replica for replica in self._live if lost is None or replica.weights is lost.weights] or self._live
        least = min(choice, key=lambda replica: replica.sampler.waiting)
        cached = next((replica for replica in choice if replica.place == place), least)
        return cached if cached.sampler.waiting <= least.sampler.waiting + CACHE_IS_WORTH else least

    async def _until_live(self) -> None:
        """Unavailable where no replica comes up in time, or none ever will."""
        try:
            async with asyncio.timeout(START_S):
                while not self._live and not self._death.done():
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            raise Unavailable(f"there has been no live sampler replica for {START_S:.0f} s") from None
        if not self._live:
            raise Unavailable(self._death.result())

    async def _behind(self, snapshot: Snapshot) -> list[Replica]:
        await self._until_live()
        return [replica for replica in self._live if replica.weights is not snapshot]

    async def _load(self, replica: Replica, snapshot: Snapshot) -> None:
        """One that cannot answer is lost, and is no reason to wait: its successor loads them, too."""
        try:
            checksum = await replica.sampler.load_weights(snapshot.folder, snapshot.version)
        except Unavailable as fault:
            self._lose(replica, fault.detail)
        else:
            snapshot.confirm(checksum)
            replica.weights = snapshot

    async def _keep(self, place: int) -> None:
        """Consumes the ends of a place's replicas, waits for the next, and produces a new one."""
        while True:
            sampler = await self._start(place)
            try:
                await sampler.ready()
                await self._serve(Replica(place, sampler))
            except TandemError as error:
                self._failed(place, error)
            finally:
                await sampler.close(self._close_s)
            if self._failures[place]:
                await asyncio.sleep(BACKOFF_S[min(self._failures[place], len(BACKOFF_S)) - 1])

    async def _serve(self, replica: Replica) -> None:
        """Let it take part from when it has the current weights until it is lost."""
        death = asyncio.create_task(replica.sampler.died())
        death.add_done_callback(lambda done: done.cancelled() or self._lose(replica, done.result()))
        try:
            while (snapshot := self._snapshots.current) is not replica.weights and not replica.lost.done():
                assert snapshot is not None
                await self._load(replica, snapshot)
            if replica.lost.done():
                raise Unavailable(replica.lost.result())
            self._join(replica)
            log.warning("replica-lost", place=replica.place, reason=await replica.lost)
        finally:
            death.cancel()
            self._leave(replica)

    def _join(self, replica: Replica) -> None:
        self._failures[replica.place] = 0
        self._info = replica.sampler.info | {"replicas": len(self._failures)}
        self._live.append(replica)
        self._wake.set()
        if not self._first.done():
            self._first.set_result(None)

    def _lose(self, replica: Replica, reason: str) -> None:
        if not replica.lost.done():
            replica.lost.set_result(reason)
        self._leave(replica)

    def _leave(self, replica: Replica) -> None:
        if replica in self._live:
            self._live.remove(replica)

    def _ended(self, keeper: asyncio.Task[None]) -> None:
        """Unless it is cancelled, a keeper ends by a fault that nobody foresaw: its place would stay empty unseen."""
        if keeper.cancelled():
            return
        self._die(f"{keeper.get_name()} cannot be kept: {keeper.exception()!r}")

    async def _watch_ground(self) -> None:
        """Consumes nothing; waits for the end of the cluster; produces that of the pool."""
        self._die(await self._ground.died())

    def _die(self, reason: str) -> None:
        if not self._first.done():
            self._first.set_exception(Unavailable(reason))
        if not self._death.done():
            self._death.set_result(reason)
            self._wake.set()

    def _failed(self, place: int, error: TandemError) -> None:
        self._failures[place] += 1
        log.warning("replica-failed", place=place, failures=self._failures[place], detail=error.detail)
        if not self._first.done():
            self._first.set_exception(error)
        if not self._live and self._failures[place] >= RESTARTS:
            self._die(f"no sampler replica is left, and none can be started: {error.detail}")
