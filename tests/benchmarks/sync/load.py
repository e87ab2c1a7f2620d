"""The load generator: submits the steps of a run in bulk, through `SyncClient`, an item a request, or at a fixed pace.

It is a process of its own: `python -m tests.benchmarks.sync.load`, driven by `worker.py`. Groups are opened within the
time that is measured; the bodies are made before it. Moments are `time.monotonic`.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from shared.client import SyncClient
from shared.schemas.rollout import RolloutItem, TrajectoryItem
from tests.benchmarks.sync.wire import Wire
from tests.benchmarks.sync.work import Item, Step, batches, make_step
from tests.benchmarks.sync.worker import serve

Keys = dict[str, str | None]


async def declare(url: str, keys: Keys, run: str, spec: dict) -> dict:
    """Declare a run."""
    async with Wire(url, keys["operator"], 1) as wire:
        return await wire.call("PUT", f"/v1/runs/{run}", spec)


async def bulk(
    url: str, keys: Keys, run: str, first: int, steps: int, shape: dict, clients: int, batch_items: int
) -> dict:
    """Whole steps in `:batch` requests; each client has one step in hand."""
    work = [make_step(run, first + number, **shape) for number in range(steps)]
    bodies = [(step, batches(step.rollouts, batch_items), batches(step.scores, batch_items)) for step in work]
    async with Wire(url, keys["planner"], 2 * clients) as planner, Wire(url, keys["executor"], clients) as executor:

        async def one(part: tuple[Step, list[bytes], list[bytes]]) -> None:
            step, rollouts, scores = part
            await _open(planner, step)
            for body in rollouts:
                await planner.send("POST", "/v1/rollouts:batch", body)
            for body in scores:
                await executor.send("POST", "/v1/trajectories:batch", body)

        started = time.monotonic()
        await _spread(bodies, one, clients)
        return {
            "started": started,
            "ended": time.monotonic(),
            "rollouts": sum(len(step.rollouts) for step in work),
            "bytes": planner.sent + planner.received + executor.sent + executor.received,
        }


async def one_by_one(url: str, keys: Keys, run: str, first: int, steps: int, shape: dict, callers: int) -> dict:
    """`callers` that each submit a rollout and then its scores through `SyncClient`, which may gather them."""
    work = [make_step(run, first + number, **shape) for number in range(steps)]
    async with (
        Wire(url, keys["planner"], 1) as wire,
        SyncClient(url, key=keys["planner"]) as planner,
        SyncClient(url, key=keys["executor"]) as executor,
    ):

        async def rollout(item: Item) -> None:
            await planner.submit_rollout(RolloutItem.model_validate_json(item.whole()))

        async def score(item: Item) -> None:
            await executor.submit_trajectory(TrajectoryItem.model_validate_json(item.whole()))

        return await _singles(wire, work, rollout, score, callers)


async def raw(url: str, keys: Keys, run: str, first: int, steps: int, shape: dict, callers: int) -> dict:
    """`callers` that each send a rollout and then its scores, a request an item."""
    work = [make_step(run, first + number, **shape) for number in range(steps)]
    async with Wire(url, keys["planner"], callers) as planner, Wire(url, keys["executor"], callers) as executor:

        async def rollout(item: Item) -> None:
            await planner.send("PUT", f"/v1/rollouts/{item.id}", item.encoded())

        async def score(item: Item) -> None:
            await executor.send("PUT", f"/v1/trajectories/{item.id}", item.encoded())

        return await _singles(planner, work, rollout, score, callers)


Submit = Callable[[Item], Awaitable[None]]


async def _singles(wire: Wire, work: Sequence[Step], rollout: Submit, score: Submit, callers: int) -> dict:
    """Submit every rollout by itself, its scores after it; a step's groups are opened while the last one's run."""
    latencies: list[float] = []

    async def timed(submit: Submit, item: Item) -> None:
        started = time.monotonic()
        await submit(item)
        latencies.append(time.monotonic() - started)

    async def one(part: tuple[asyncio.Task, Item, Sequence[Item]]) -> None:
        opened, item, scores = part
        await opened
        await timed(rollout, item)
        for each in scores:
            await timed(score, each)

    started = time.monotonic()
    parts = []
    async with asyncio.TaskGroup() as tasks:
        opening: asyncio.Task | None = None
        for step in work:
            opening = tasks.create_task(_open(wire, step, after=opening))
            calls = len(step.scores) // len(step.rollouts)
            parts += [
                (opening, item, step.scores[at * calls : (at + 1) * calls]) for at, item in enumerate(step.rollouts)
            ]
        await _spread(parts, one, callers)
    return {"started": started, "ended": time.monotonic(), "rollouts": len(parts), "latencies": latencies}


async def paced(url: str, keys: Keys, run: str, first: int, steps: int, shape: dict, per_s: float) -> dict:
    """Single submissions at a fixed pace, whatever the answers take; when the last score of each step was sent, which
    is before its commit."""
    work = [make_step(run, first + number, **shape) for number in range(steps)]
    latencies: list[float] = []
    last_sent: dict[int, float] = {}
    async with Wire(url, keys["planner"], 64) as planner, Wire(url, keys["executor"], 64) as executor:

        async def submit(wire: Wire, path: str, item: Item) -> None:
            started = time.monotonic()
            await wire.send("PUT", f"/v1/{path}/{item.id}", item.encoded())
            latencies.append(time.monotonic() - started)

        async def last(item: Item, before: Sequence[asyncio.Task], number: int) -> None:
            await asyncio.wait(before)
            last_sent[number] = time.monotonic()
            await submit(executor, "trajectories", item)

        started = time.monotonic()
        pace = Pace(per_s)
        async with asyncio.TaskGroup() as tasks:
            for step in work:
                await _open(planner, step)
                sent = []
                for wire, path, item in [
                    *((planner, "rollouts", item) for item in step.rollouts),
                    *((executor, "trajectories", item) for item in step.scores[:-1]),
                ]:
                    await pace.next()
                    sent.append(tasks.create_task(submit(wire, path, item)))
                await pace.next()
                tasks.create_task(last(step.scores[-1], sent, step.number))
    return {
        "started": started,
        "ended": time.monotonic(),
        "rollouts": sum(len(step.rollouts) for step in work),
        "latencies": latencies,
        "last_sent": [last_sent[step.number] for step in work],
    }


class Pace:
    """Moments at a fixed distance; what is late is caught up with."""

    def __init__(self, per_s: float) -> None:
        self._distance = 1 / per_s
        self._at = time.monotonic()

    async def next(self) -> None:
        self._at += self._distance
        await asyncio.sleep(max(0.0, self._at - time.monotonic()))


async def _open(wire: Wire, step: Step, *, after: asyncio.Task | None = None) -> None:
    if after is not None:
        await after

    for body in batches(list(step.opening()), len(step.groups)):
        await wire.send("POST", "/v1/groups:batch", body)


async def _spread(parts: Iterable[Any], work: Callable[[Any], Awaitable[None]], at_once: int) -> None:
    """`work` on each part, `at_once` of them at a time."""
    left = iter(parts)

    async def take() -> None:
        for part in left:
            await work(part)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(take())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve({"declare": declare, "bulk": bulk, "one_by_one": one_by_one, "raw": raw, "paced": paced})
