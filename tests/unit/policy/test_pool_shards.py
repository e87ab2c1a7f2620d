"""Two trainer shards, as processes of this machine, against the trainer of one process."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from shared.errors import InvalidInput, TandemError, Unavailable
from shared.policy.child import Child
from shared.policy.config import PolicyConfig
from shared.policy.pool.trainer import ShardedTrainer
from shared.policy.processes import trainer_settings
from shared.policy.store import TrajectoryStore
from shared.policy.trainer_child import TrainerService
from shared.policy.types import TrainRow, Trajectory
from tests.processes import words

from .tiny import save_model

pytestmark = pytest.mark.timeout(400)  # each start imports torch twice, on a machine that may be busy

LENGTHS = [9, 33, 12, 21, 5, 40, 17, 28, 11]
DEAD = {2, 5}
BASE = {"lr": 1e-2, "warmup_steps": 0, "micro_batch_tokens": 64}
HARD = BASE | {"gradient_checkpointing": True, "weight_decay": 0.1, "objective": {"kl_coef": 0.1, "loss_norm": "token"}}


def settings_of(config: PolicyConfig, store: TrajectoryStore) -> dict[str, Any]:
    return trainer_settings(config, store.path, total_steps=10)


@asynccontextmanager
async def sharded(
    settings: dict[str, Any], store: Path, logs: Path, count: int = 2, collective_s: float = 60.0
) -> AsyncGenerator[ShardedTrainer]:
    meet = {"shards": count, "rendezvous": f"file://{logs / 'meet'}", "collective_s": collective_s}  # no port is taken
    children = [
        await Child.spawn("shard", settings | meet | {"rank": rank}, logs / f"shard-{rank}.log", 1)
        for rank in range(count)
    ]
    trainer = ShardedTrainer(children, store, collective_s)
    try:
        await trainer.ready()
        yield trainer
    finally:
        await trainer.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[TrajectoryStore]:
    store = TrajectoryStore(tmp_path / "t.sqlite", 2**30)
    yield store
    store.close()


@pytest.fixture
async def rows(store: TrajectoryStore, make_trajectory: Callable[..., Trajectory]) -> list[dict[str, Any]]:
    """Of different lengths and multiplicities, two of them dead."""
    rows = []
    for place, length in enumerate(LENGTHS):
        await store.put(make_trajectory(length, id=f"t{place}"))
        rows.append(TrainRow(f"t{place}", (-1.0) ** place * (1 + place / 4), 1.0 + place % 3, dead=place in DEAD))
    return [asdict(row) for row in rows]


def folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def close_to(a: Path, b: Path) -> None:
    for name in ("model.safetensors", "optimizer.safetensors"):
        torch.testing.assert_close(load_file(a / name), load_file(b / name), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("trainer", "model"), [(BASE, {}), (HARD, {"tied": False, "frozen_embedding_rows": [3, 20]})], ids=["plain", "hard"]
)
async def test_two_shards_take_the_steps_of_one_process_and_hand_their_state_on(trainer, model, store, rows, tmp_path):
    config = PolicyConfig(model=save_model(tmp_path / "model", **model), device="cpu", trainer=trainer)
    settings = settings_of(config, store)
    one = TrainerService(settings | {"threads": 1})
    async with sharded(settings, store.path, tmp_path) as shards:
        for step in (1, 2):
            ours = await shards.call("accumulate", {"rows": rows, "step": step})
            reference = one._accumulate(rows, step)
            assert ours["micro_batches"] > 2  # so that the shards have several, not equally many
            for key in set(reference) - {"seconds"}:
                assert ours[key] == pytest.approx(reference[key], abs=1e-5), key
            norms = (await shards.call("apply", {"step": step}), one._apply(step))
            assert norms[0]["gradient_norm"] == pytest.approx(norms[1]["gradient_norm"], abs=1e-4)
        probe = {"token_ids": [5, 6, 7, 8, 9], "first": 2}
        assert await shards.call("logprobs", probe) == pytest.approx(one._trainer.logprobs(**probe), abs=1e-5)

        checksum = await shards.call("save", {"folder": folder(tmp_path / "two")})
        one._save(folder(tmp_path / "one"))
        close_to(tmp_path / "two", tmp_path / "one")
        assert (tmp_path / "two/config.json").read_text() == (tmp_path / "one/config.json").read_text()

        one._restore(str(tmp_path / "two"), checksum)  # from two shards to one process
        assert one._save(folder(tmp_path / "after-two")) == checksum
        await shards.call("restore", {"folder": str(tmp_path / "one"), "checksum": None})  # and back
        await shards.call("save", {"folder": folder(tmp_path / "after-one")})
        for name in ("model.safetensors", "optimizer.safetensors"):
            assert (tmp_path / "after-two" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
            assert (tmp_path / "after-one" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
        await shards.call("restore", {"folder": None, "checksum": None})
        assert await shards.call("export", {"folder": folder(tmp_path / "initial")})
    initial = load_file(config.model / "model.safetensors")
    torch.testing.assert_close(load_file(tmp_path / "initial/model.safetensors"), initial, atol=0, rtol=0)


async def test_what_keeps_a_step_from_being_taken_keeps_all_shards_from_it(config, store, rows, tmp_path):
    async with sharded(settings_of(config, store), store.path, tmp_path) as shards:
        before = await shards.call("export", {"folder": folder(tmp_path / "before")})
        with pytest.raises(InvalidInput, match="t1 stands twice"):
            await shards.call("accumulate", {"rows": [*rows, rows[1]], "step": 1})
        assert await shards.call("accumulate", {"rows": [rows[2]], "step": 1}) is None  # all dead
        with pytest.raises(InvalidInput, match="no accumulated gradient"):
            await shards.call("apply", {"step": 1})

        huge = [replace_advantage(row, 1e38 if row["trajectory"] == "t7" else 1.0) for row in rows]  # on one shard only
        with pytest.raises(TandemError, match=r"step 1 is (inf|-inf|nan)"):
            await shards.call("accumulate", {"rows": huge, "step": 1})
        assert await shards.call("export", {"folder": folder(tmp_path / "after")}) == before

        cancelled = asyncio.create_task(shards.call("accumulate", {"rows": rows, "step": 2}))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await shards.call("accumulate", {"rows": rows, "step": 3}))["rows"] == len(rows) - len(DEAD)


def replace_advantage(row: dict[str, Any], advantage: float) -> dict[str, Any]:
    return asdict(replace(TrainRow(**row), advantage=advantage, multiplicity=1e3))


async def test_a_shard_that_is_killed_within_a_step_ends_all_of_them(config, store, rows, tmp_path):
    async with sharded(settings_of(config, store), store.path, tmp_path) as shards:
        _, second = (p for p in psutil.Process().children(recursive=True) if "shard" in words(p))
        second.suspend()  # so that the first waits for it in a collective
        step = asyncio.create_task(shards.call("accumulate", {"rows": rows, "step": 1}))
        await asyncio.sleep(0)
        second.kill()
        assert "signal 9" in await asyncio.wait_for(shards.died(), 60)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(step, 60)
        with pytest.raises(Unavailable):
            await shards.call("discard")
        assert not [p for p in psutil.Process().children(recursive=True) if "shard" in words(p)]


async def test_a_shard_that_hangs_within_a_step_ends_all_of_them_with_one_line(config, store, rows, tmp_path):
    async with sharded(settings_of(config, store), store.path, tmp_path, collective_s=2) as shards:
        _, second = (p for p in psutil.Process().children(recursive=True) if "shard" in words(p))
        second.suspend()
        with pytest.raises(Unavailable) as fault:
            await asyncio.wait_for(shards.call("accumulate", {"rows": rows, "step": 1}), 60)
        setting = "2 s (policy.pool.collective_timeout_s)"
        line = f"a trainer shard failed in accumulate: shard 0 waited for another for {setting}"
        assert fault.value.detail == await asyncio.wait_for(shards.died(), 60) == line
        assert not [p for p in psutil.Process().children(recursive=True) if "shard" in words(p)]


class Silent:
    """A shard that answers no call, or answers at once."""

    info: dict[str, Any] = {}

    def __init__(self, answers: bool) -> None:
        self.answers, self.closed = answers, False

    async def ready(self) -> None: ...

    async def call(self, method: str, arguments: dict[str, Any] | None = None, timeout_s: float = 0.0) -> str:
        await asyncio.sleep(0 if self.answers else 3600)
        return "answered"

    async def died(self) -> str:
        await asyncio.Event().wait()
        return ""

    async def close(self, timeout_s: float = 0.0) -> None:
        self.closed = True


async def test_a_shard_that_hangs_once_the_others_have_what_they_need_of_it_ends_all_of_them(tmp_path):
    parts = [Silent(True), Silent(False)]
    shards = ShardedTrainer(parts, tmp_path, collective_s=0.05)
    with pytest.raises(Unavailable, match="failed in apply: one did not answer within"):
        await asyncio.wait_for(shards.call("apply", {"step": 1}), 60)
    assert "did not answer" in await shards.died()
    assert all(part.closed for part in parts)
    await shards.close()
