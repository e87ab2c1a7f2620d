"""vLLM as the sampler beside trainer shards: a step, its weights in one file, and in the server."""

from dataclasses import asdict
from pathlib import Path

import pytest

from shared.policy.checkpoints import CheckpointStore
from shared.policy.child import Child
from shared.policy.config import PolicyConfig
from shared.policy.policy import Policy
from shared.policy.pool.trainer import ShardedTrainer
from shared.policy.processes import trainer_settings
from shared.policy.store import TrajectoryStore
from shared.policy.types import SamplingParams, TrainRow
from shared.schemas import PolicyVersion

PARAMS = SamplingParams(3)


async def shards_of(config: PolicyConfig, store: TrajectoryStore, folder: Path) -> ShardedTrainer:
    meet = {"shards": 2, "rendezvous": f"file://{folder / 'meet'}", "collective_s": 60.0}
    settings = trainer_settings(config, store.path, total_steps=10) | meet
    logs = [folder / f"shard-{rank}.log" for rank in range(2)]
    parts = [await Child.spawn("shard", settings | {"rank": rank}, log, 1) for rank, log in enumerate(logs)]
    return ShardedTrainer(parts, store.path)


@pytest.mark.timeout(400)
async def test_what_shards_train_is_what_vllm_is_given(sampler, fake, model, make_trajectory, tmp_path):
    config = PolicyConfig.model_validate({"model": model, "device": "cpu", "trainer": {"lr": 1e-2, "warmup_steps": 0}})
    store = TrajectoryStore(tmp_path / "t.sqlite", 2**30)
    trainer = await shards_of(config, store, tmp_path)
    checkpoints = CheckpointStore(tmp_path / "checkpoints", model, "r", "planner", 2)
    policy = Policy(sampler, trainer, store, checkpoints, tmp_path / "scratch")
    try:
        await trainer.ready()
        for place in range(4):
            await store.put(make_trajectory(9 + place, id=f"t{place}"))
        rows = [asdict(TrainRow(f"t{place}", (-1.0) ** place, 1.0)) for place in range(4)]
        heads = {fake.head}
        for step in (1, 2):
            await trainer.call("accumulate", {"rows": rows, "step": step})
            await trainer.call("apply", {"step": step})
            version = PolicyVersion(epoch=1, step=step, updates=step)
            assert await policy.load_sampler(version) == await policy.checksum()
            assert (await sampler.generate([5, 6], PARAMS)).version == version
            heads.add(fake.head)
        assert len(heads) == 3  # the embedding was trained, and the head that vLLM holds is it
    finally:
        await policy.close()
