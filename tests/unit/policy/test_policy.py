"""The policy with its real processes."""

import asyncio
import json
import signal

import psutil
import pytest
from safetensors.torch import load_file

from shared.errors import InvalidInput, NotFound, Unavailable, UserError
from shared.policy.policy import Policy
from shared.policy.types import SamplingParams, StepAbandoned, TrainRow, Trajectory
from shared.schemas import PolicyVersion
from tests.guards import always, never
from tests.processes import words

from .tiny import WORDS

pytestmark = pytest.mark.timeout(400)  # each start imports torch twice, on a machine that may be busy

PROMPT = [5, 6, 7, 8]
GREEDY = SamplingParams(max_new_tokens=8, temperature=0.0)
SAMPLED = SamplingParams(max_new_tokens=6, temperature=1.0, stop_ids=(1,))


async def start(config, folder, *, resume=False, **options):
    return await Policy.start(config, folder, "r", "planner", total_steps=20, resume=resume, **options)


async def roll_out(policy, count):
    """Sampled rows in the store, with advantages of both signs."""
    completions = await asyncio.gather(
        *(policy.sampler.generate([2 + i % (WORDS - 2), 9, 4], SAMPLED) for i in range(count))
    )
    rows = []
    for i, completion in enumerate(completions):
        ids = [2 + i % (WORDS - 2), 9, 4, *completion.token_ids]
        mask = [0] * 3 + [1] * len(completion.token_ids)
        logprobs = [0.0] * 3 + completion.logprobs
        await policy.store.put(
            Trajectory(f"t{policy.step}.{i}", "r", "planner", ids, mask, logprobs, completion.version)
        )
        rows.append(TrainRow(f"t{policy.step}.{i}", 1.0 if i % 2 else -1.0, 1.0 + i % 3))
    return rows


def version(step):
    return PolicyVersion(epoch=1, step=step, updates=step)


async def test_sample_train_load_save_and_resume(config, tmp_path, ack):
    policy = await start(config, tmp_path / "p")
    try:
        before = await policy.sampler.generate(PROMPT, GREEDY)
        rows = await roll_out(policy, 24)
        counts = await policy.sampler.statistics()
        assert counts["requests"] == 25
        assert counts["steps"] < counts["tokens"]  # concurrent requests shared forward passes

        result = await policy.update(rows, 1, always)
        assert (result.updates, result.skipped, policy.step) == (1, False, 1)
        # the sampler's log-probs are the trainer's, so nothing clips and the ratio is 1
        assert result.statistics["gap_max"] < 1e-4
        assert result.statistics["ratio_mean"] == pytest.approx(1, abs=1e-4)
        assert result.statistics["tokens_per_second"] > 0

        unmoved = await policy.sampler.generate(PROMPT, GREEDY)
        assert (unmoved.token_ids, unmoved.version) == (before.token_ids, before.version)  # until it is loaded
        assert unmoved.logprobs == pytest.approx(before.logprobs, abs=1e-5)  # its prompt was kept
        checksum = await policy.load_sampler(version(1))
        after = await policy.sampler.generate(PROMPT, GREEDY)
        assert after.version == version(1)
        assert after.logprobs != before.logprobs
        initial = await policy.sampler.generate(PROMPT, GREEDY, checkpoint=policy.checkpoints.path("initial"))
        assert initial.token_ids == before.token_ids
        assert initial.logprobs == pytest.approx(before.logprobs, abs=1e-5)

        saved = await policy.save(1, ack(1))
        assert saved.checksum == checksum
        assert not any((tmp_path / "p/scratch").iterdir())
        evaluated = await policy.sampler.generate(PROMPT, GREEDY, checkpoint=policy.checkpoints.path("step-1"))
        assert (evaluated.token_ids, evaluated.version.step) == (after.token_ids, 1)

        for step in (2, 3):
            await policy.update(await roll_out(policy, 8), step, always)
        unbroken = await policy.load_sampler(version(3))
        assert unbroken != checksum
    finally:
        await policy.close()

    (tmp_path / "p/scratch/1.9").mkdir()  # of a process that was killed with weights on their way
    resumed = await start(config, tmp_path / "p", resume=True)
    try:
        assert not (tmp_path / "p/scratch/1.9").exists()
        assert resumed.latest() == saved
        assert (resumed.step, resumed.updates) == (1, 1)
        assert await resumed.load_sampler(version(1)) == checksum
        for step in (2, 3):
            rows = [TrainRow(f"t{step - 1}.{i}", 1.0 if i % 2 else -1.0, 1.0 + i % 3) for i in range(8)]
            await resumed.update(rows, step, always)
        assert await resumed.load_sampler(version(3)) == unbroken  # bit by bit
        await resumed.restore(None)
        assert (resumed.step, resumed.updates) == (0, 0)
        await resumed.load_sampler(version(0))
        again = await resumed.sampler.generate(PROMPT, GREEDY)
        assert again.logprobs == pytest.approx(before.logprobs, abs=1e-5)
        damaged = load_file(saved.path / "model.safetensors")
        (saved.path / "model.safetensors").write_bytes(b"".join(t.numpy().tobytes() for t in damaged.values()))
        with pytest.raises(UserError, match="step-1 is damaged"):
            await resumed.restore(saved)
    finally:
        await resumed.close()


async def test_what_keeps_a_step_from_being_taken(config, tmp_path):
    policy = await start(config, tmp_path / "p")
    try:
        rows = await roll_out(policy, 6)
        initial = await policy.load_sampler(version(0))

        with pytest.raises(StepAbandoned, match="step 1"):
            await policy.update(rows, 1, never)
        with pytest.raises(NotFound, match="absent"):
            await policy.update([*rows, TrainRow("absent", 1.0, 1.0)], 1, always)
        with pytest.raises(InvalidInput, match=rows[0].trajectory):
            await policy.update([rows[0], rows[0]], 1, always)
        dead = [TrainRow(row.trajectory, 0.0, 1.0, dead=True) for row in rows]
        skipped = await policy.update(dead, 1, always)
        assert (skipped.skipped, skipped.updates, policy.step) == (True, 0, 1)
        assert (await policy.update([], 2, always)).skipped
        assert await policy.load_sampler(version(2)) == initial

        taken = await policy.update(rows, 3, always)
        assert (taken.skipped, taken.updates) == (False, 1)
        assert await policy.load_sampler(version(3)) != initial

        with pytest.raises(InvalidInput, match="positions"):
            await policy.sampler.generate([5] * 128, GREEDY)
        waiting = asyncio.create_task(policy.sampler.generate(PROMPT, GREEDY))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await policy.sampler.generate(PROMPT, GREEDY)).token_ids
    finally:
        await policy.close()


def worker(kind):
    (found,) = [p for p in psutil.Process().children(recursive=True) if kind in words(p)]
    return found


async def test_a_killed_trainer_is_named(config, tmp_path):
    policy = await start(config, tmp_path / "p")
    try:
        failed = asyncio.create_task(policy.failed())
        trainer = worker("trainer")
        trainer.suspend()
        waiting = asyncio.create_task(policy.update([TrainRow("t", 1.0, 1.0)], 1, always))
        await policy.sampler.statistics()  # the update's request is on its way
        trainer.send_signal(signal.SIGKILL)
        reason = await asyncio.wait_for(failed, 10)
        assert "the trainer process was killed by signal 9" in reason
        assert "1 torch threads" in reason  # the end of its log
        with pytest.raises(Unavailable, match="signal 9"):
            await asyncio.wait_for(waiting, 10)
        with pytest.raises(Unavailable, match="signal 9"):
            await policy.load_sampler(version(1))
        assert (await policy.sampler.generate(PROMPT, GREEDY)).token_ids
    finally:
        await policy.close()


async def test_a_killed_sampler_is_named_and_a_role_that_does_not_train_has_no_trainer(config, tmp_path):
    policy = await start(config, tmp_path / "p", train=False, logs=tmp_path / "logs")
    try:
        assert (await policy.sampler.generate(PROMPT, GREEDY)).token_ids
        assert [path.name for path in (tmp_path / "logs").iterdir()] == ["sampler.log"]
        with pytest.raises(Unavailable, match="does not train"):
            await policy.load_sampler(version(1))

        failed = asyncio.create_task(policy.failed())
        sampler = worker("sampler")
        sampler.suspend()
        waiting = asyncio.create_task(policy.sampler.generate(PROMPT, GREEDY))
        await asyncio.sleep(0)
        sampler.send_signal(signal.SIGKILL)
        reason = await asyncio.wait_for(failed, 10)
        assert "the sampler process was killed by signal 9" in reason
        assert str(tmp_path / "logs/sampler.log") in reason
        with pytest.raises(Unavailable, match="signal 9"):
            await asyncio.wait_for(waiting, 10)
    finally:
        await policy.close()


async def test_a_missing_model_is_one_clear_error_before_anything_starts(config, tmp_path):
    missing = config.model_copy(update={"model": tmp_path / "nowhere"})
    with pytest.raises(UserError, match="nowhere"):
        await start(missing, tmp_path / "p")
    assert not (tmp_path / "p").exists()


async def test_a_model_that_cannot_be_loaded_is_one_clear_error_and_leaves_nothing_behind(config, tmp_path):
    (config.model / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(UserError, match=str(config.model)):
        await start(config, tmp_path / "p", train=False)
    assert not [p for p in psutil.Process().children(recursive=True) if "shared.policy.worker" in words(p)]


def checkpoint(folder):
    """What looks like one, of step 4, and holds no weights."""
    (folder / "step-4").mkdir(parents=True)
    ack = {"epoch": 1, "step": 4, "outcome": "trained", "updates": 4, "fates": {}}
    meta = {"run": "r", "role": "planner", "step": 4, "updates": 4, "checksum": "0" * 64, "pending_ack": ack}
    (folder / "step-4" / "trainer.json").write_text(json.dumps(meta))


async def test_a_fresh_run_does_not_overwrite_checkpoints(config, tmp_path):
    checkpoint(tmp_path / "p/checkpoints")
    with pytest.raises(UserError, match="step-4"):
        await start(config, tmp_path / "p")


async def test_a_checkpoint_that_cannot_be_resumed_from_leaves_no_process(config, tmp_path, monkeypatch):
    class Process:
        closed = False

        async def call(self, *_):
            raise UserError("damaged")

        async def close(self):
            self.closed = True

    started = Process(), Process()

    async def start_processes(*_):
        return started

    monkeypatch.setattr("shared.policy.policy.start_processes", start_processes)
    checkpoint(tmp_path / "p/checkpoints")
    with pytest.raises(UserError, match="damaged"):
        await start(config, tmp_path / "p", resume=True)
    assert [process.closed for process in started] == [True, True]
