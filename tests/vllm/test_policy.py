"""A policy whose sampler is a vLLM server: sampled, trained, loaded, probed; and what its end looks like."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from shared.errors import Conflict, Unavailable
from shared.policy.config import PolicyConfig
from shared.policy.policy import Policy
from shared.policy.types import SamplingParams, TrainRow, Trajectory
from shared.policy.weights import save_weights
from shared.schemas import PolicyVersion
from tests.guards import always
from tests.processes import words
from tests.unit.policy.tiny import WORDS, build_model

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

SAMPLED = SamplingParams(max_new_tokens=6, temperature=1.0, stop_ids=(1,))
DEADLINE_S = 60


def version(step: int) -> PolicyVersion:
    return PolicyVersion(epoch=1, step=step, updates=step)


async def roll_out(policy: Policy, count: int) -> list[TrainRow]:
    """Sampled rows in the store, with advantages of both signs."""
    prompts = [[2 + i % (WORDS - 2), 9, 4] for i in range(count)]
    turns = await asyncio.gather(*(policy.sampler.generate(prompt, SAMPLED) for prompt in prompts))
    for i, (prompt, turn) in enumerate(zip(prompts, turns, strict=True)):
        mask, logprobs = [0] * 3 + [1] * len(turn.token_ids), [0.0] * 3 + turn.logprobs
        ids = prompt + turn.token_ids
        await policy.store.put(Trajectory(f"t{policy.step}.{i}", "r", "planner", ids, mask, logprobs, turn.version))
    return [TrainRow(f"t{policy.step}.{i}", 1.0 if i % 2 else -1.0, 1.0) for i in range(count)]


async def test_a_step_with_a_vllm_server_and_how_it_ends(config: PolicyConfig, tmp_path: Path):
    policy = await Policy.start(config, tmp_path / "p", "r", "planner", total_steps=20, resume=False)
    try:
        initial = await policy.load_sampler(version(0))
        for step in (1, 2):
            result = await policy.update(await roll_out(policy, 24), step, always)
            assert result.statistics["gap_max"] < 1e-4  # below max_gap, or the step would have failed
            loaded = await policy.load_sampler(version(step))
            assert loaded != initial
            counts = await policy.sampler.statistics()
            assert counts["probe_gap_max"] < 1e-4
            assert (await policy.sampler.generate([5, 6], SAMPLED)).version == version(step)

        save_weights(build_model(seed=9), tmp_path / "foreign")  # not what the trainer holds
        with pytest.raises(Conflict, match="from the trainer's on average"):
            await policy.sampler.load_weights(tmp_path / "foreign", version(3))
        with pytest.raises(Unavailable, match="were not taken over"):
            await policy.sampler.generate([5], SAMPLED)
        assert "were not taken over" in await asyncio.wait_for(policy.failed(), DEADLINE_S)
    finally:
        await policy.close()
    assert not servers()


async def test_a_killed_server_is_named_with_the_end_of_its_log(config: PolicyConfig, tmp_path: Path):
    policy = await Policy.start(config, tmp_path / "p", "r", "planner", total_steps=20, resume=False, train=False)
    try:
        running = asyncio.create_task(policy.sampler.generate([5] * 4, SamplingParams(100)))
        (server,) = servers()
        server.send_signal(signal.SIGKILL)
        reason = await asyncio.wait_for(policy.failed(), DEADLINE_S)
        assert "the vLLM server was killed by signal 9" in reason
        assert "vllm.log" in reason
        with pytest.raises(Unavailable):
            await asyncio.wait_for(running, DEADLINE_S)
    finally:
        await policy.close()
    assert not servers()


def servers() -> list[psutil.Process]:
    """The vLLM servers, and their engines and workers, that this process has started and that still run."""
    return [p for p in psutil.Process().children(recursive=True) if "vllm.entrypoints.openai.api_server" in words(p)]
