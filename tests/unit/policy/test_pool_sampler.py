"""A pool of samplers, over replicas that are told when to answer and when to die."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Conflict, TandemError, Unavailable, UserError
from shared.policy.pool import sampler as module
from shared.policy.pool.sampler import SamplerPool
from shared.policy.types import Completion, SamplingParams
from shared.schemas import PolicyVersion
from tests.waiting import until

PARAMS = SamplingParams(max_new_tokens=2)
INITIAL = PolicyVersion(epoch=0, step=0, updates=0)


class Replica:
    """A sampler that answers `[place]` once `go` is set, from the weights that it has."""

    def __init__(self, place: int, fault: TandemError | None = None) -> None:
        self.info = {"device": "cpu"}
        self.place, self.fault, self.version = place, fault, INITIAL
        self.waiting = self.turns = self.tokens = 0
        self.started, self.go = asyncio.Event(), asyncio.Event()
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.loading = asyncio.Event()
        self.loading.set()
        self.loads: list[Path] = []
        self.prompts: list[list[int]] = []
        self.go.set()
        self.started.set()
        self.closed = False

    async def ready(self) -> None:
        await self.started.wait()
        if self.fault:
            raise self.fault

    async def died(self) -> str:
        return await asyncio.shield(self.death)

    async def close(self, timeout_s: float = 0) -> None:
        self.closed = True

    async def statistics(self) -> dict[str, Any]:
        return {"requests": self.turns, "largest_batch": self.place + 3, "busy_s": 0.5, "name": "x"}

    async def generate(self, prompt_ids, params, *, checkpoint=None) -> Completion:
        self.prompts.append(list(prompt_ids))
        self.waiting += 1
        version = self.version
        try:
            await self._unless_dead(self.go)
        finally:
            self.waiting -= 1
        self.turns += 1
        return Completion([self.place], [-1.0], version, "length")

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        self.loads.append(folder)
        await self._unless_dead(self.loading)
        self.version = version
        return (folder / "model.safetensors").read_text()

    async def _unless_dead(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.died())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.death.done():
            raise Unavailable(self.death.result())


class Cluster:
    """Gives replicas to the places; `made` has all of them, by place."""

    def __init__(self) -> None:
        self.made: dict[int, list[Replica]] = {}
        self.room = 99
        self.grown = asyncio.Event()
        self.faults: list[TandemError] = []

    async def start(self, place: int) -> Any:
        replica = Replica(place, self.faults.pop(0) if self.faults else None)
        if place >= self.room:
            replica.started = self.grown
        self.made.setdefault(place, []).append(replica)
        return replica

    def last(self, place: int) -> Replica:
        return self.made[place][-1]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(module, "BACKOFF_S", (0.0,))
    return Cluster()


@pytest.fixture
async def pool(cluster: Cluster, tmp_path: Path) -> AsyncGenerator[SamplerPool]:
    pool = SamplerPool(cluster.start, 3, tmp_path / "replicas")
    yield pool
    await pool.close()
    assert all(replica.closed for replicas in cluster.made.values() for replica in replicas)


def version(step: int) -> PolicyVersion:
    return PolicyVersion(epoch=1, step=step, updates=step)


def weights(folder: Path, content: str) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_text(content)
    (folder / "optimizer.safetensors").write_text("no sampler reads it")
    return folder


async def all_live(pool: SamplerPool, count: int = 3) -> None:
    await pool.ready()
    await until(lambda: len(pool._live) == count)


async def test_turns_spread_over_the_replicas_and_a_next_turn_goes_where_its_cache_is(pool, cluster):
    await all_live(pool)
    for place in range(3):
        cluster.last(place).go.clear()
    first = [asyncio.create_task(pool.generate([1, 2, 3], PARAMS)) for _ in range(9)]
    await until(lambda: all(cluster.last(place).waiting == 3 for place in range(3)))
    assert pool.waiting == 9
    for place in range(3):
        cluster.last(place).go.set()
    places = [(await turn).token_ids[0] for turn in first]
    for place in reversed(range(3)):  # not in the order of the replicas
        assert (await pool.generate([1, 2, 3, place, 8, 8], PARAMS)).token_ids == [place]
        assert (await pool.generate([1, 2, 3, place, 8, 8, place, 4], PARAMS)).token_ids == [place]
    assert sorted(places) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert (pool.waiting, pool.turns, pool.tokens) == (0, 15, 15)
    assert await pool.statistics() == {"requests": 15, "largest_batch": 5, "busy_s": 1.5, "replicas": 3}
    assert pool.info == {"device": "cpu", "replicas": 3}


async def test_a_cache_is_not_worth_a_long_queue(pool, cluster):
    await all_live(pool)
    (place,) = (await pool.generate([1], PARAMS)).token_ids
    cluster.last(place).waiting = module.CACHE_IS_WORTH + 1
    assert (await pool.generate([1, place, 7], PARAMS)).token_ids != [place]


async def test_the_turns_of_a_dead_replica_go_to_one_with_the_same_weights_and_it_is_replaced(pool, cluster, tmp_path):
    await all_live(pool)
    await pool.load_weights(weights(tmp_path / "1", "one"), version(1))
    for place in range(3):
        cluster.last(place).go.clear()
    turns = [asyncio.create_task(pool.generate([place], PARAMS)) for place in range(6)]
    await until(lambda: all(cluster.last(place).waiting == 2 for place in range(3)))
    cluster.last(2).loading.clear()
    cluster.last(0).loading.clear()
    load = asyncio.create_task(pool.load_weights(weights(tmp_path / "2", "two"), version(2)))
    await until(lambda: cluster.last(1).version == version(2))
    cluster.last(2).death.set_result("killed")
    await until(lambda: cluster.last(0).waiting == 4)  # those of 2 are at 0, which has not loaded the second weights
    await until(lambda: len(cluster.made[2]) == 2 and cluster.last(2).version == version(2))
    assert not load.done()  # 0 has not confirmed
    cluster.last(0).loading.set()
    assert await load == "two"
    for place in (0, 1):
        cluster.last(place).go.set()
    assert {(await turn).version for turn in turns} == {version(1)}


async def test_weights_are_confirmed_by_all_and_differing_bytes_are_a_conflict(pool, cluster, tmp_path):
    await all_live(pool)
    folder = weights(tmp_path / "1", "one")
    assert await pool.load_weights(folder, version(1)) == "one"
    assert all(cluster.last(place).version == version(1) for place in range(3))
    read = cluster.last(1).loads[0]
    assert read != folder
    assert not (read / "optimizer.safetensors").exists()

    async def other(*_: object) -> str:
        return "other"

    cluster.last(1).load_weights = other  # ty: ignore[invalid-assignment]
    with pytest.raises(Conflict, match="checksum"):
        await pool.load_weights(weights(tmp_path / "2", "two"), version(2))


async def test_a_place_without_room_starts_when_a_machine_joins_with_the_weights_of_that_time(cluster, tmp_path):
    cluster.room = 1
    pool = SamplerPool(cluster.start, 2, tmp_path / "replicas")
    await pool.ready()
    folder = weights(tmp_path / "1", "one")
    await pool.load_weights(folder, version(1))  # does not wait for the second
    (folder / "model.safetensors").unlink()  # nor needs the folder any more
    cluster.last(1).loading.clear()
    cluster.grown.set()
    await until(lambda: cluster.last(1).loads)
    load = asyncio.create_task(pool.load_weights(weights(tmp_path / "2", "two"), version(2)))
    await until(lambda: cluster.last(0).version == version(2))
    assert await load == "two"
    assert len(pool._live) == 1
    cluster.last(1).loading.set()
    await until(lambda: len(pool._live) == 2)
    assert cluster.last(1).version == version(2)
    await pool.close()


async def test_a_turn_that_kills_its_replicas_does_not_kill_them_for_ever(pool, cluster):
    await all_live(pool)

    async def poisonous(*_: object, **__: object) -> Completion:
        raise Unavailable("killed by signal 11")

    for place in range(3):
        cluster.last(place).generate = poisonous  # ty: ignore[invalid-assignment]
    with pytest.raises(Unavailable, match=r"3 sampler replicas.*signal 11"):
        await pool.generate([1], PARAMS)
    assert (await pool.generate([1], PARAMS)).token_ids  # by their successors


async def test_what_keeps_the_first_replica_from_starting_is_told_at_once(cluster, tmp_path):
    cluster.faults = [UserError("there is no model"), UserError("there is no model")]
    pool = SamplerPool(cluster.start, 2, tmp_path / "replicas")
    with pytest.raises(UserError, match="no model"):
        await pool.ready()
    await pool.close(0)


async def test_a_fault_that_nobody_foresaw_is_told_and_no_place_stays_empty_unseen(tmp_path):
    async def full(place: int) -> Any:
        raise OSError("no space left")

    pool = SamplerPool(full, 2, tmp_path / "replicas")
    with pytest.raises(Unavailable, match=r"replica-0 cannot be kept.*no space left"):
        await pool.ready()
    assert "no space left" in await asyncio.wait_for(pool.died(), 10)
    await pool.close(0)


async def test_the_pool_is_dead_when_nothing_lives_and_nothing_starts(pool, cluster):
    await all_live(pool)
    cluster.faults = [Unavailable("out of memory")] * 100
    for place in range(3):
        cluster.last(place).death.set_result("killed")
    assert "out of memory" in await asyncio.wait_for(pool.died(), 10)
    with pytest.raises(Unavailable, match="out of memory"):
        await pool.generate([1], PARAMS)
