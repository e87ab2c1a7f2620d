"""A policy's sampler and trainer on the role's Ray cluster: replicas and shards, each an actor."""

import asyncio
from pathlib import Path
from typing import cast

from shared.errors import DeadlineExceeded
from shared.policy.child import START_S, Child
from shared.policy.config import PolicyConfig
from shared.policy.pool.cluster import Cluster
from shared.policy.pool.remote import RemoteChild
from shared.policy.pool.sampler import SamplerPool
from shared.policy.pool.trainer import ShardedTrainer
from shared.policy.processes import Process, SamplerProcess, TrainerProcess, cores, trainer_settings
from shared.policy.sampler import TransformersSampler

COLLECTIVE_S = 300.0


async def start_pool(
    config: PolicyConfig, store: Path, logs: Path, total_steps: int | None, train: bool
) -> tuple[SamplerProcess, TrainerProcess | None]:
    """Shards first: a role cannot do without any of them. Then as many replicas as there is room for, at least one."""
    samplers = config.pool.samplers or 1
    shards = (config.pool.trainer_shards or 1) if train else 0
    threads = config.threads or (1 if config.pool.address else max(1, cores() // (samplers + shards)))
    cluster = Cluster(config.pool.address, threads * (samplers + shards))
    await cluster.open()
    started: list[Process] = []
    try:
        trainer = await _shards(config, store, logs, total_steps, threads, cluster) if train else None
        started += [trainer] if trainer else []
        cluster.keep()
        sampler = _replicas(config, samplers, store.parent / "replicas", logs, threads, cluster)
        started.append(sampler)
        await asyncio.gather(*(process.ready() for process in started))
    except BaseException:
        await asyncio.gather(*(process.close(0) for process in started))
        raise
    finally:
        await cluster.release()
    return sampler, trainer


def _replicas(
    config: PolicyConfig, count: int, scratch: Path, logs: Path, threads: int, cluster: Cluster
) -> SamplerPool:
    async def start(place: int) -> SamplerProcess:
        settings = TransformersSampler.settings(config)
        child = RemoteChild("sampler", f"sampler-{place}", settings, logs, threads, _gpus(config))
        return TransformersSampler(cast(Child, child))  # it offers what a child on this machine does

    return SamplerPool(start, count, scratch, cluster.release)


async def _shards(
    config: PolicyConfig, store: Path, logs: Path, total_steps: int | None, threads: int, cluster: Cluster
) -> ShardedTrainer:
    count = config.pool.trainer_shards or 1
    settings = trainer_settings(config, store, total_steps)
    settings |= {"shards": count, "collective_s": config.pool.collective_timeout_s or COLLECTIVE_S}
    shards = [
        RemoteChild("shard", f"trainer-{rank}", settings | {"rank": rank}, logs, threads, _gpus(config))
        for rank in range(count)
    ]
    try:
        first, *_ = await asyncio.wait_for(asyncio.gather(*(shard.placed() for shard in shards)), START_S)
    except BaseException as error:
        await asyncio.gather(*(shard.close(0) for shard in shards))
        if isinstance(error, TimeoutError):
            needs = f"{threads} CPUs" + (" and a GPU" if _gpus(config) else "")
            raise DeadlineExceeded(f"the cluster has had no room for {count} trainer shards, each of {needs}") from None
        raise
    for shard in shards:
        shard.settings["rendezvous"] = f"tcp://{first['address']}:{first['port']}"
    cluster.keep()
    return ShardedTrainer(shards, store, cluster.release)


def _gpus(config: PolicyConfig) -> int:
    return int(config.device == "cuda")
