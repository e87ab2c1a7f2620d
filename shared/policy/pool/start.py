"""A role's Ray cluster, and on it the parts of its policy: sampler replicas and trainer shards, each an actor."""

import asyncio
import itertools
from pathlib import Path
from typing import cast

from shared.errors import DeadlineExceeded
from shared.policy.child import START_S, Child
from shared.policy.config import PolicyConfig
from shared.policy.pool.cluster import Cluster
from shared.policy.pool.remote import RemoteChild
from shared.policy.pool.sampler import SamplerPool
from shared.policy.pool.trainer import COLLECTIVE_S, ShardedTrainer
from shared.policy.processes import SamplerProcess, cores, trainer_settings
from shared.policy.sampler import TransformersSampler


class RayPool:
    """Open until whoever opened it has released it, and what it made is closed."""

    def __init__(self, config: PolicyConfig, cluster: Cluster, threads: int) -> None:
        self._config, self._cluster, self._threads = config, cluster, threads
        self._gpus = int(config.device == "cuda")

    @classmethod
    async def open(cls, config: PolicyConfig, train: bool) -> "RayPool":
        """Join the cluster, or start one of this machine that has room for all. UserError: there is none to join."""
        actors = (config.pool.samplers or 1) + (config.pool.trainer_shards or 1 if train else 0)
        threads = config.threads or (1 if config.pool.address else max(1, cores() // actors))
        cluster = Cluster(config.pool.address, threads * actors)
        await cluster.open()
        return cls(config, cluster, threads)

    async def release(self) -> None:
        """Whoever opened it needs it no more; its parts keep it while they live."""
        await self._cluster.release()

    def sampler(self, scratch: Path, logs: Path) -> SamplerPool:
        """As many replicas as the cluster has room for, at most the configured number, now or later."""
        starts = itertools.count()

        async def start(place: int) -> SamplerProcess:
            settings = TransformersSampler.settings(self._config)
            if settings["seed"] is not None:
                settings["seed"] += next(starts)  # replicas that drew alike would sample a group's rollouts alike
            child = RemoteChild("sampler", f"sampler-{place}", settings, logs, self._threads, self._gpus)
            return TransformersSampler(cast(Child, child))  # it offers what a child on this machine does

        self._cluster.keep()
        return SamplerPool(start, self._config.pool.samplers or 1, scratch, self._cluster)

    async def trainer(self, store: Path, logs: Path, total_steps: int | None) -> ShardedTrainer:
        """All shards, placed: a role can do without none of them, so they come before the replicas."""
        pool = self._config.pool
        count = pool.trainer_shards or 1
        settings = trainer_settings(self._config, store, total_steps)
        collective_s = pool.collective_timeout_s or COLLECTIVE_S
        settings |= {"shards": count, "collective_s": collective_s}
        shards = [
            RemoteChild("shard", f"trainer-{rank}", settings | {"rank": rank}, logs, self._threads, self._gpus)
            for rank in range(count)
        ]
        await self._place(shards)
        self._cluster.keep()
        return ShardedTrainer(shards, store, collective_s, self._cluster)

    async def _place(self, shards: list[RemoteChild]) -> None:
        """They meet at the machine of the first. DeadlineExceeded: the cluster is too small, and stays so."""
        try:
            first, *_ = await asyncio.wait_for(asyncio.gather(*(shard.placed() for shard in shards)), START_S)
        except BaseException as error:
            await asyncio.gather(*(shard.close(0) for shard in shards))
            if isinstance(error, TimeoutError):
                each = f"{self._threads} CPUs" + (" and a GPU" if self._gpus else "")
                raise DeadlineExceeded(f"the cluster has no room for {len(shards)} trainer shards of {each}") from None
            raise
        for shard in shards:
            shard.settings["rendezvous"] = f"tcp://{first['address']}:{first['port']}"
