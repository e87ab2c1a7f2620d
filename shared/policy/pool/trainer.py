"""A trainer of several processes, its shards, as its server sees it: one process, which lives while all of them do."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shared.errors import DeadlineExceeded, Unavailable
from shared.policy.child import CALL_S, CLOSE_S
from shared.policy.pool.lifeline import Ground, ThisMachine
from shared.policy.processes import TrainerProcess
from shared.policy.records import connect, read

COLLECTIVE_S = 300.0


class ShardedTrainer:
    """The `TrainerProcess` protocol over shards, each of which gets every call.

    A shard's death ends the others: they hold slices of one state, which is worth nothing without the rest. The role's
    server ends then, too, and goes on from its last checkpoint when it is started again.
    """

    def __init__(
        self,
        shards: Sequence[TrainerProcess],
        store: Path,
        collective_s: float = COLLECTIVE_S,
        ground: Ground | None = None,
    ) -> None:
        """`collective_s`: the longest that a shard may be behind the others; `ground` is released at the very end."""
        self._shards = shards
        self._store = store
        self._collective_s = collective_s
        self._turn = asyncio.Lock()
        self._death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watch = asyncio.create_task(self._watch_shards(), name="trainer-shards")
        self._closing = False
        self._ground = ground or ThisMachine()

    @property
    def info(self) -> dict[str, Any]:
        """Device, threads and number of parameters of the whole model; how many shards."""
        return self._shards[0].info | {"shards": len(self._shards)}

    async def ready(self) -> None:
        """Wait until all have met and loaded their model; Unavailable where the cluster ends meanwhile."""
        met = asyncio.gather(*(shard.ready() for shard in self._shards))
        try:
            await asyncio.wait({met, self._death}, return_when=asyncio.FIRST_COMPLETED)
            if not met.done():
                raise Unavailable(self._death.result())
            await met
        finally:
            met.cancel()

    async def call(self, method: str, arguments: dict[str, Any] | None = None, timeout_s: float = CALL_S) -> Any:
        """Ask all shards; the answer is the first one's.

        A call that has begun reaches every shard, though its caller be cancelled: one that reached some would leave
        them waiting for the others.
        """
        return await asyncio.shield(asyncio.create_task(self._call(method, arguments or {}, timeout_s)))

    async def died(self) -> str:
        """Wait for the end of the first shard that ends, and say why. Does not return after `close`."""
        return await asyncio.shield(self._death)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End all shards, within the bound."""
        self._closing = True
        self._watch.cancel()
        within_s = 0.0 if self._death.done() else timeout_s  # those that are left are being killed
        await asyncio.gather(*(shard.close(within_s) for shard in self._shards))
        await self._ground.release()

    async def _call(self, method: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        async with self._turn:
            if method == "accumulate":
                arguments = arguments | {"trajectories": await asyncio.to_thread(self._read, arguments["rows"])}
            answers = await self._answers(method, arguments, timeout_s)
        faults = [answer for answer in answers if isinstance(answer, BaseException)]
        if not faults:
            return answers[0]
        agreed = len(faults) == len(self._shards) and all(type(fault) is type(faults[0]) for fault in faults)
        if not agreed or isinstance(faults[0], Unavailable):
            await self._end(f"a trainer shard failed in {method}: {faults[0]}")
            raise Unavailable(self._death.result() if self._death.done() else "the trainer is closed") from faults[0]
        raise faults[0]

    async def _answers(self, method: str, arguments: dict[str, Any], timeout_s: float) -> list[Any]:
        """What each shard answers or raises, in their order.

        They meet within a call, and so end it together: one that is still silent `collective_s` after the first answer
        hangs. The others tell of it themselves where they wait for it in a collective: then nobody waits any longer.
        """
        calls = [asyncio.ensure_future(shard.call(method, arguments, timeout_s)) for shard in self._shards]
        done, late = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        told = next((fault for call in done if isinstance(fault := call.exception(), Unavailable)), None)
        if late:
            _, late = await asyncio.wait(late, timeout=0 if told else self._collective_s)
        for call in late:
            call.cancel()
        hangs = told or DeadlineExceeded(f"one did not answer within {self._collective_s:g} s of the others")
        return [hangs if call in late else call.exception() or call.result() for call in calls]

    def _read(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows' trajectories: a shard may be on another machine than the store."""
        connection = connect(self._store, write=False)
        try:
            found = read(connection, [row["trajectory"] for row in rows])
        finally:
            connection.close()
        stripped = [replace(trajectory, messages=[], facts={}) for trajectory in found.values()]
        return [asdict(trajectory) | {"version": trajectory.version.model_dump()} for trajectory in stripped]

    async def _watch_shards(self) -> None:
        """Consumes the lives of the shards and of the cluster, waits for the first end, and ends the others."""
        deaths = [asyncio.create_task(part.died()) for part in (*self._shards, self._ground)]
        try:
            done, _ = await asyncio.wait(deaths, return_when=asyncio.FIRST_COMPLETED)
            await self._end(done.pop().result())
        finally:
            for death in deaths:
                death.cancel()

    async def _end(self, reason: str) -> None:
        if not self._death.done() and not self._closing:
            self._death.set_result(reason)
        await asyncio.gather(*(shard.close(0) for shard in self._shards))
