"""A policy on a Ray cluster of this machine: two sampler replicas, two trainer shards, and what is killed of them."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from ray.cluster_utils import Cluster

from shared.errors import Unavailable, UserError
from shared.policy.config import PolicyConfig
from shared.policy.policy import Policy
from shared.policy.pool.host import PREFIX
from shared.policy.pool.sampler import SamplerPool
from shared.policy.pool.start import RayPool
from shared.policy.types import SamplingParams, TrainRow, Trajectory
from shared.schemas import PolicyVersion
from tests.guards import always
from tests.processes import words
from tests.waiting import until

from .sampler_contract import SamplerContract
from .tiny import save_model

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]

PARAMS = SamplingParams(max_new_tokens=6, stop_ids=(1,))
LONG = SamplingParams(max_new_tokens=60)
STORE = {"object_store_memory": 80 * 2**20}


def version(step: int) -> PolicyVersion:
    return PolicyVersion(epoch=1, step=step, updates=step)


def ray_config(folder: Path, **pool: object) -> PolicyConfig:
    fields = {"model": save_model(folder / "model"), "device": "cpu", "threads": 1, "trainer": {"lr": 1e-2}}
    return PolicyConfig.model_validate(fields | {"pool": {"kind": "ray", **pool}})


async def start(config: PolicyConfig, folder: Path, **options: bool) -> Policy:
    return await Policy.start(config, folder / "run", "r", "planner", total_steps=20, **{"resume": False} | options)


def workers(kind: str) -> list[psutil.Process]:
    """The torch processes of that kind below this one."""
    return [p for p in psutil.Process().children(recursive=True) if {"shared.policy.worker", kind} <= set(words(p))]


async def running(kind: str, count: int) -> list[psutil.Process]:
    """So many of them: one that ends while the processes are listed hides those below it for a moment."""
    found: list[psutil.Process] = []

    def all_are() -> bool:
        found[:] = workers(kind)
        return len(found) == count

    await until(all_are)
    return found


def actor_of(worker: psutil.Process) -> psutil.Process:
    """Above a torch process is the fork server of its actor, and above that the actor."""
    return worker.parents()[1]


async def replicas(policy: Policy, count: int) -> None:
    async def are_live() -> bool:
        return (await policy.sampler.statistics())["replicas"] == count

    await until(are_live, 120)


async def roll_out(policy: Policy, count: int = 12) -> list[TrainRow]:
    turns = await asyncio.gather(*(policy.sampler.generate([2 + i, 9, 4], PARAMS) for i in range(count)))
    rows = []
    for i, turn in enumerate(turns):
        ids, mask = [2 + i, 9, 4, *turn.token_ids], [0] * 3 + [1] * len(turn.token_ids)
        name = f"t{policy.step}.{i}"
        await policy.store.put(Trajectory(name, "r", "planner", ids, mask, [0.0] * 3 + turn.logprobs, turn.version))
        rows.append(TrainRow(name, 1.0 if i % 2 else -1.0, 1.0 + i % 3))
    return rows


async def test_a_role_on_ray_trains_and_outlives_a_replica_but_not_a_shard(tmp_path, ack):
    before = psutil.Process().children(recursive=True)
    policy = await start(ray_config(tmp_path, samplers=2, trainer_shards=2), tmp_path)
    try:
        await replicas(policy, 2)
        rows = await roll_out(policy)
        result = await policy.update(rows, 1, always)
        assert result.statistics["gap_max"] < 1e-4  # the shards' log-probs are the replicas'
        saved = await policy.save(1, ack(1))
        assert await policy.load_sampler(version(1)) == saved.checksum

        turns = [asyncio.create_task(policy.sampler.generate([5, 6, 7], LONG)) for _ in range(60)]
        await until(lambda: policy.sampler.turns > 12)  # the first have come: the rest is in flight
        (one, _) = await running("sampler", 2)
        actor_of(one).kill()
        assert {(await turn).version for turn in turns} == {version(1)}
        await replicas(policy, 2)
        assert len({(await policy.sampler.generate([5, 6, 7], LONG)).version for _ in range(4)}) == 1

        failed = asyncio.create_task(policy.failed())
        (_, shard) = await running("shard", 2)
        shard.suspend()
        step = asyncio.create_task(policy.update(rows, 2, always))
        await policy.sampler.statistics()  # the step has been sent
        actor_of(shard).kill()
        shard.kill()  # while it is suspended it cannot end itself
        assert "shard" in await asyncio.wait_for(failed, 60)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(step, 60)
    finally:
        await policy.close()
    ours = [p for p in psutil.Process().children(recursive=True) if p not in before]
    assert not psutil.wait_procs(ours, 10)[1]

    resumed = await Policy.start(  # by one process, on what the two shards saved
        PolicyConfig.model_validate({"model": tmp_path / "model", "device": "cpu", "threads": 1}),
        *(tmp_path / "run", "r", "planner", 20, True),
    )
    try:
        assert (resumed.step, await resumed.checksum()) == (1, saved.checksum)
    finally:
        await resumed.close()


async def test_a_shard_that_hangs_ends_the_trainer_within_the_deadline(tmp_path):
    before = psutil.Process().children(recursive=True)
    config = ray_config(tmp_path, trainer_shards=2, collective_timeout_s=2.0)
    pool = await RayPool.open(config, train=True)
    trainer = await pool.trainer(tmp_path / "t.sqlite", tmp_path / "logs", 20)
    await pool.release()
    try:
        await trainer.ready()
        (_, shard) = await running("shard", 2)
        shard.suspend()
        with pytest.raises(Unavailable, match=r"waited for another for 2 s \(policy\.pool\.collective_timeout_s\)"):
            await asyncio.wait_for(trainer.call("logprobs", {"token_ids": [5, 6, 7], "first": 1}), 60)
        assert "waited for another" in await asyncio.wait_for(trainer.died(), 60)
    finally:
        await trainer.close()
    ours = [p for p in psutil.Process().children(recursive=True) if p not in before]
    assert not psutil.wait_procs(ours, 10)[1]


def cluster_without_room() -> Cluster:
    """The driver's own machine, on which nothing can be placed."""
    return Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False} | STORE)


class TestReplicasOnAnotherMachine(SamplerContract):
    """Two nodes of a cluster on one machine share no path as far as we know: all files go through the object store."""

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def started(self, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[SamplerPool]:
        folder, cluster = tmp_path_factory.mktemp("replicas"), cluster_without_room()
        try:
            cluster.add_node(num_cpus=2, **STORE)
            pool = await RayPool.open(ray_config(folder, address=cluster.address, samplers=2), train=False)
            sampler = pool.sampler(folder / "scratch", folder / "logs")
            await pool.release()
            try:
                await sampler.ready()
                yield sampler
                assert not list((folder / "logs").iterdir())  # their logs are where they are
            finally:
                await sampler.close()
        finally:
            cluster.shutdown()


async def test_a_role_on_other_machines_grows_when_one_joins(tmp_path, ack):
    cluster = cluster_without_room()
    try:
        cluster.add_node(num_cpus=2, **STORE)
        config = ray_config(tmp_path, address=cluster.address, samplers=2)
        policy = await start(config, tmp_path)
        try:
            rows = await roll_out(policy)
            await policy.update(rows, 1, always)
            saved = await policy.save(1, ack(1))
            await policy.update(rows, 2, always)
            await policy.load_sampler(version(2))
            evaluated = await policy.sampler.generate([5, 6], PARAMS, checkpoint=saved.path)
            assert evaluated.version.step == 1

            await policy.restore(saved)
            assert await policy.load_sampler(version(1)) == saved.checksum
            assert (await policy.sampler.statistics())["replicas"] == 1
            cluster.add_node(num_cpus=1, **STORE)
            await replicas(policy, 2)
            turns = await asyncio.gather(*(policy.sampler.generate([5, 6, 7], PARAMS) for _ in range(8)))
            assert {turn.version for turn in turns} == {version(1)}
        finally:
            await policy.close()
        assert not lent()
    finally:
        cluster.shutdown()


def lent() -> list[Path]:
    """Copies of folders that actors have left behind."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lent-*"))


async def test_a_cluster_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(UserError, match=r"127\.0\.0\.1:1 "):
        await start(ray_config(tmp_path, address="127.0.0.1:1"), tmp_path)
