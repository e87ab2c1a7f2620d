import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from shared.errors import InvalidInput, NotFound, UserError
from shared.policy import holds
from shared.policy.checkpoints import CheckpointStore, saved_version
from shared.policy.model import load_model
from shared.policy.optimizer import load_optimizer_state, optimizer_state
from shared.policy.tokenizer import load_tokenizer
from shared.policy.training import Trainer
from shared.policy.weights import load_weights, save_weights

from .test_training import TrainerConfig, examples
from .tiny import build_model

CPU = torch.device("cpu")


@pytest.fixture
def store(tmp_path, model_folder):
    return CheckpointStore(tmp_path / "checkpoints", model_folder, "r", "planner", keep_last=2)


async def weights(folder: Path) -> str:
    return save_weights(build_model(), folder)


async def test_a_checkpoint_is_a_model_folder_with_its_tokenizer_and_its_ack(store, ack):
    body = ack(5)
    saved = await store.save(5, 4, body, weights)
    assert (saved.name, saved.step, saved.updates, saved.pending_ack) == ("step-5", 5, 4, body)
    assert store.latest() == saved
    assert load_tokenizer(saved.path).encode("w5 w6") == [5, 6]
    assert load_model(saved.path, CPU).num_parameters() > 0
    assert saved_version(saved.path).model_dump() == {"epoch": 3, "step": 5, "updates": 4}


async def test_the_last_ones_and_the_best_stay(store, ack):
    for step in range(1, 7):
        await store.save(step, step, ack(step), weights)
        if step == 2:
            store.keep("step-2")
    assert [(c.name, c.kept) for c in store.saved()] == [("step-2", True), ("step-5", False), ("step-6", False)]
    store.keep("latest")
    await store.save(7, 7, ack(7), weights)
    await store.save(8, 8, ack(8), weights)
    assert [c.name for c in store.saved()] == ["step-6", "step-7", "step-8"]


async def test_one_that_an_evaluation_uses_stays(store, ack, monkeypatch):
    monkeypatch.setattr(holds, "LINGER_S", 0.0)
    steps = iter(range(1, 100))

    async def save() -> list[str]:
        step = next(steps)
        await store.save(step, step, ack(step), weights)
        return [checkpoint.name for checkpoint in store.saved()]

    await save()
    with store.hold("step-1") as path, store.hold("latest") as same, store.hold("live") as live:
        assert (path, same, live) == (store.folder / "step-1", path, None)
        for _ in range(3):
            kept = await save()
        assert kept == ["step-1", "step-3", "step-4"]
    assert await save() == ["step-4", "step-5"]
    monkeypatch.setattr(holds, "LINGER_S", float("inf"))
    with pytest.raises(NotFound), store.hold("step-4"), store.hold("step-1"):
        pass
    await save()
    assert await save() == ["step-4", "step-6", "step-7"]  # it may be asked for again


@pytest.mark.parametrize("meta", ["{", "3", "{}", '{"run": "r", "role": "planner", "pending_ack": {}}'])
def test_a_spoilt_one_is_named(store, meta):
    (store.folder / "step-3").mkdir()
    (store.folder / "step-3" / "trainer.json").write_text(meta)
    with pytest.raises(UserError, match=r"step-3/trainer\.json is not that of a checkpoint") as caught:
        store.saved()
    assert "\n" not in caught.value.detail


async def test_names_lead_to_folders(store, model_folder, ack):
    assert store.path("live") is None
    assert store.path("initial") == model_folder
    for name in ("latest", "best", "step-1"):
        with pytest.raises(NotFound):
            store.path(name)
    await store.save(10, 9, ack(10), weights)
    await store.save(9, 8, ack(9), weights)
    store.keep("step-9")
    assert store.path("latest") == store.folder / "step-10"
    assert store.path("best") == store.folder / "step-9"
    assert store.path("step-10") == store.folder / "step-10"
    store.keep("initial")
    assert store.path("best") == model_folder
    with pytest.raises(InvalidInput):
        store.keep("live")
    with pytest.raises(NotFound, match="step-3"):
        store.keep("step-3")
    with pytest.raises(NotFound):
        store.path("../model")


async def test_a_half_written_one_is_ignored_and_removed_at_start(store, model_folder, ack):
    whole = await store.save(1, 1, ack(1), weights)

    async def cut_short(folder: Path) -> str:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="space"):
        await store.save(2, 2, ack(2), cut_short)
    shutil.copytree(whole.path, store.folder / "step-3")
    (store.folder / "step-3/trainer.json").unlink()
    again = CheckpointStore(store.folder, model_folder, "r", "planner", keep_last=2)
    assert again.latest() == whole
    assert [path.name for path in store.folder.iterdir()] == ["step-1"]


async def test_the_same_step_again_replaces_it(store, ack):
    await store.save(1, 1, ack(1), weights)
    second = await store.save(1, 0, ack(1), weights)
    assert store.saved() == [second]


async def test_a_checkpoint_of_another_run_is_refused(store, model_folder, ack):
    await store.save(1, 1, ack(1), weights)
    other = CheckpointStore(store.folder, model_folder, "another", "planner", keep_last=2)
    with pytest.raises(UserError, match="run r"):
        other.latest()


async def test_every_file_is_on_disk_before_the_name_is(store, ack, monkeypatch):
    """At the rename, everything in the folder has been synced."""
    synced, at_rename = [], []
    monkeypatch.setattr("shared.policy.checkpoints._sync", lambda path: synced.append(path.name))
    rename = Path.rename

    def watched(path, target):
        if path.name.startswith(".partial-step"):
            at_rename.append({file.name for file in path.iterdir()} - set(synced))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", watched)
    await store.save(1, 1, ack(1), weights)
    assert at_rename == [set()]


def test_resume_is_bit_exact(tmp_path):
    """Five steps without a break, or with a stop after the second: the same weights to the last bit."""
    config = TrainerConfig(lr=1e-2, warmup_steps=3, weight_decay=0.1)

    def train(model, trainer, steps):
        for step in steps:
            trainer.accumulate(examples(seed=step), step)
            trainer.apply(step)

    unbroken = build_model()
    train(unbroken, Trainer(unbroken, config, total_steps=5), range(1, 6))

    first = build_model()
    trainer = Trainer(first, config, total_steps=5)
    train(first, trainer, [1, 2])
    save_weights(first, tmp_path / "c")
    save_file(optimizer_state(first, trainer.optimizer), tmp_path / "c/optimizer.safetensors")

    second = build_model(seed=9)
    resumed = Trainer(second, config, total_steps=5)
    train(second, resumed, [1])  # whatever the optimiser held before is gone after a restore
    load_weights(second, tmp_path / "c")
    load_optimizer_state(second, resumed.optimizer, load_file(tmp_path / "c/optimizer.safetensors"))
    train(second, resumed, [3, 4, 5])
    assert all(torch.equal(tensor, unbroken.state_dict()[name]) for name, tensor in second.state_dict().items())


def test_before_the_first_step_and_after_going_back_to_it_there_is_no_optimiser_state(tmp_path):
    model = build_model()
    trainer = Trainer(model, TrainerConfig(), total_steps=5)
    save_file(optimizer_state(model, trainer.optimizer), tmp_path / "o.safetensors")
    load_optimizer_state(model, trainer.optimizer, load_file(tmp_path / "o.safetensors"))
    assert optimizer_state(model, trainer.optimizer) == {}
    trainer.accumulate(examples(), 1)
    trainer.apply(1)
    assert optimizer_state(model, trainer.optimizer)
    load_optimizer_state(model, trainer.optimizer, load_file(tmp_path / "o.safetensors"))
    assert optimizer_state(model, trainer.optimizer) == {}


async def test_the_meta_file_is_plain_json(store, ack):
    saved = await store.save(1, 1, ack(1), weights)
    meta = json.loads((saved.path / "trainer.json").read_text())
    assert meta["checksum"] == saved.checksum
    assert meta["pending_ack"]["fates"] == saved.pending_ack.fates
