"""Each figure: the load generator and the consumer on one service, on a run of its own or on one with a history."""

import asyncio
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.benchmarks.sync.consume import ROLES
from tests.benchmarks.sync.load import Keys
from tests.benchmarks.sync.shape import Shape
from tests.benchmarks.sync.worker import Worker

HORIZON = 64
"""Steps that may be open beyond the last confirmed one: the most that a run allows."""
_numbers = itertools.count(1)


@dataclass
class Run:
    """A run that has a history, and its next step."""

    name: str
    step: int


@dataclass
class Place:
    """A service with its keys. `runs`: those with a history, by what is measured on them; else each has a new one."""

    url: str
    keys: Keys
    runs: dict[str, Run] = field(default_factory=dict)


def kinds(shape: Shape) -> dict[str, tuple[int, int]]:
    """What is measured on which runs: their groups a step, and rollouts a group."""
    streams = {f"stream-{number}": (1, shape.rollouts_per_group) for number in range(shape.stream_runs)}
    return {
        "bulk": (shape.groups_per_step, shape.rollouts_per_group),
        "single": (shape.single_groups_per_step, shape.rollouts_per_group),
        "paced": (1, shape.paced_rollouts),
        **streams,
    }


def spec(groups_per_step: int, rollouts_per_group: int) -> dict:
    """A run whose deadlines and length are out of the way."""
    return {
        "steps": 1_000_000,
        "groups_per_step": groups_per_step,
        "rollouts_per_group": rollouts_per_group,
        "staleness": HORIZON,
        "lease_ttl_s": 60.0,
    }


@dataclass
class Bench:
    """The two processes, and what is asked of them."""

    shape: Shape
    load: Worker
    consumer: Worker

    async def bulk(self, place: Place) -> dict[str, float]:
        """Whole steps in `:batch` requests: rollouts a second, bytes of bodies a rollout."""
        found = await self._beside(place, "bulk", "bulk", self.shape.bulk_steps, **self._batches())
        return {"bulk_rollouts_per_s": found["rate"], "bytes_per_rollout": found["bytes"] / found["rollouts"]}

    async def client(self, place: Place) -> dict[str, float]:
        """Callers that submit one by one through `SyncClient`."""
        steps, callers = self.shape.client_steps, self.shape.callers
        found = await self._beside(place, "one_by_one", "single", steps, callers=callers)
        return {"client_rollouts_per_s": found["rate"]}

    async def raw(self, place: Place) -> dict[str, float]:
        """A request an item, as fast as the service takes them; the latency is that of a busy service."""
        found = await self._beside(place, "raw", "single", self.shape.raw_steps, callers=self.shape.callers)
        return {
            "raw_rollouts_per_s": found["rate"],
            "busy_submit_p50_ms": quantile_ms(found["latencies"], 0.5),
            "busy_submit_p99_ms": quantile_ms(found["latencies"], 0.99),
        }

    async def paced(self, place: Place) -> dict[str, float]:
        """Latency of a submission, and visibility, at a fixed pace."""
        shape = self.shape
        items = shape.paced_rollouts * (1 + shape.calls)
        steps = max(2, round(shape.paced_s * shape.paced_per_s / items))
        found = await self._beside(place, "paced", "paced", steps, per_s=shape.paced_per_s)
        seen = [held - sent for sent, held in zip(found["last_sent"], found["held"]["executor"], strict=False)]
        return {
            "submit_p50_ms": quantile_ms(found["latencies"], 0.5),
            "submit_p99_ms": quantile_ms(found["latencies"], 0.99),
            "visibility_p50_ms": quantile_ms(seen, 0.5),
            "visibility_p99_ms": quantile_ms(seen, 0.99),
        }

    async def stream(self, place: Place) -> dict[str, float]:
        """Lease and ack, over and over, of small batches that are ready beforehand; every run's two streams at once."""
        steps = self.shape.stream_steps
        streams = [kind for kind in kinds(self.shape) if kind.startswith("stream")]
        runs = [await self._run(place, kind, steps) for kind in streams]
        for kind, run in zip(streams, runs, strict=True):
            await self.load.call("bulk", **self._work(place, kind, run, steps), **self._batches())
        held = await self._consume(place, runs, steps, confirm=False)
        moments = [moment for roles in held.values() for role in roles.values() for moment in role]
        return {"stream_cycles_per_s": len(runs) * len(ROLES) * steps / (max(moments) - min(moments))}

    async def _beside(self, place: Place, do: str, kind: str, steps: int, **how: object) -> dict:
        """A load, and the consumer beside it. The rate counts until the last step is acked by both roles."""
        run = await self._run(place, kind, steps)
        load, held = await asyncio.gather(
            self.load.call(do, **self._work(place, kind, run, steps), **how), self._consume(place, [run], steps)
        )
        ended = max(load["ended"], *(moments[-1] for moments in held[run.name].values()))
        rate = load["rollouts"] / (ended - load["started"])
        return load | {"rate": rate, "held": held[run.name]}

    async def _consume(
        self, place: Place, runs: Sequence[Run], steps: int, *, confirm: bool = True
    ) -> dict[str, dict[str, list[float]]]:
        firsts = {run.name: run.step for run in runs}
        return await self.consumer.call(
            "consume", url=place.url, keys=place.keys, firsts=firsts, steps=steps, confirm=confirm
        )

    async def _run(self, place: Place, kind: str, steps: int) -> Run:
        """Where to work: on a new run, or on the next steps of the one that has a history."""
        if known := place.runs.get(kind):
            place.runs[kind] = Run(known.name, known.step + steps)
            return known
        return Run(await self.declare(place, kind), 1)

    async def declare(self, place: Place, kind: str) -> str:
        """Declare a new run; its name."""
        name = f"{kind}-{next(_numbers)}"
        await self.load.call("declare", url=place.url, keys=place.keys, run=name, spec=spec(*kinds(self.shape)[kind]))
        return name

    def _work(self, place: Place, kind: str, run: Run, steps: int) -> dict:
        groups, rollouts = kinds(self.shape)[kind]
        shape = {"groups": groups, "rollouts_per_group": rollouts, "calls": self.shape.calls}
        return {
            "url": place.url,
            "keys": place.keys,
            "run": run.name,
            "first": run.step,
            "steps": steps,
            "shape": shape,
        }

    def _batches(self) -> dict[str, int]:
        return {"clients": self.shape.clients, "batch_items": self.shape.batch_items}


def quantile_ms(seconds: Sequence[float], q: float) -> float:
    """The q-quantile, in milliseconds."""
    return 1000 * statistics.quantiles(seconds, n=1000, method="inclusive")[round(q * 1000) - 1]
