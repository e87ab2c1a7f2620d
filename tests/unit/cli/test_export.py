"""`tandem export`: a folder that transformers loads, a card that says what it is, lines that hold every trajectory."""

import asyncio
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from shared.cli.export.checkpoint import export_checkpoint
from shared.cli.export.source import find_checkpoint, find_stores
from shared.cli.export.trajectories import count, export_trajectories
from shared.errors import UserError
from shared.policy.checkpoints import CheckpointStore
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.policy.weights import file_checksum
from shared.schemas.base import PolicyVersion
from shared.schemas.stream import Ack
from tests.parity_environment import save_model

SETTINGS = """run = "museum-1"
sync_url = "http://secret.host:8700"
environment = "atlas"
[policy]
model = "/secret/place/base-model"
temperature = 1.0
[policy.trainer]
lr = 0.001
"""


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run whose planner has two checkpoints, beside which lie a pickle, code and the trainer's own files."""
    model, server = tmp_path / "base-model", tmp_path / "museum-1" / "planner"
    save_model(model, "planner", {})
    (model / "LICENSE").write_text("free")
    (model / "code.py").write_text("evil")
    checkpoints = CheckpointStore(server / "checkpoints", model, "museum-1", "planner", keep_last=2)

    async def write(folder: Path) -> str:
        tensors = load_file(model / "model.safetensors")
        save_file(
            {name: tensor + 1 for name, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"}
        )
        save_file({"moment": torch.zeros(1)}, folder / "optimizer.safetensors")
        (folder / "state.pkl").write_bytes(b"evil")
        return file_checksum(folder / "model.safetensors")

    for step in (10, 20):
        statistics = {"reward_mean": 0.875, "loss": 0.5}
        ack = Ack(epoch=1, step=step, outcome="trained", updates=step, fates={}, statistics=statistics)
        asyncio.run(checkpoints.save(step, step, ack, write))
    (server / "config.toml").write_text(SETTINGS)
    return tmp_path / "museum-1"


def export(source: Path, to: Path, role: str | None = None, name: str | None = None) -> list[str]:
    return export_checkpoint(find_checkpoint(source, role, name), to, lambda size: None)


def test_the_folder_loads_and_holds_nothing_of_the_trainer(run_folder: Path, tmp_path: Path):
    names = export(run_folder, tmp_path / "out", "planner")
    assert not {"trainer.json", "optimizer.safetensors", "state.pkl", "code.py"} & set(names)
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "LICENSE"} <= set(names)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", local_files_only=True).state_dict()
    trained = load_file(run_folder / "planner" / "checkpoints" / "step-20" / "model.safetensors")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in trained.items())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "1"}], tokenize=False)


def test_the_card_says_what_it_is_and_names_no_place(run_folder: Path, tmp_path: Path):
    export(run_folder, tmp_path / "out", "planner")
    card = (tmp_path / "out" / "README.md").read_text()
    for part in ("`base-model`", "`museum-1`", "| 20, 20 |", "lr = 0.001", "| reward_mean | 0.875 |", "M-GRPO"):
        assert part in card
    assert "secret" not in card


def test_which_checkpoint_is_meant(run_folder: Path):
    folder = run_folder / "planner" / "checkpoints"
    assert find_checkpoint(run_folder, None, None) == folder / "step-20"
    assert find_checkpoint(run_folder / "planner", None, "step-10") == folder / "step-10"
    assert find_checkpoint(folder / "step-10", None, None) == folder / "step-10"
    (folder / "best").write_text("step-10")
    assert find_checkpoint(run_folder, "planner", None) == folder / "step-10"
    assert find_checkpoint(run_folder, "planner", "latest") == folder / "step-20"
    (run_folder / "executor" / "checkpoints").mkdir(parents=True)
    for words, said in (
        ((None, None), "--role"),
        (("executor", None), "it has: none"),
        (("planner", "../x"), "step-10"),
    ):
        with pytest.raises(UserError, match=said):
            find_checkpoint(run_folder, *words)
    with pytest.raises(UserError, match="no checkpoint, and no folder"):
        find_checkpoint(run_folder.parent / "nowhere", None, None)


def test_one_that_is_damaged_leaves_nothing(run_folder: Path, tmp_path: Path):
    weights = run_folder / "planner" / "checkpoints" / "step-20" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="is damaged"):
        export(run_folder, tmp_path / "out", "planner")
    assert not list(tmp_path.glob("*out*"))
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="exists"):
        export(run_folder, tmp_path / "there", "planner", "step-10")


def test_every_trajectory_is_a_line(tmp_path: Path):
    kept = [
        Trajectory(
            id=f"t{place}",
            run="r1",
            role="planner",
            token_ids=[1, 2],
            mask=[0, 1],
            logprobs=[0.0, -0.5],
            version=PolicyVersion(epoch=1, step=place, updates=place),
            messages=[{"role": "assistant", "content": "half \ud800 pair\n\u2028"}],
            facts={"status": "ok"} | ({"parts": ["t2"]} if place == 1 else {}),
        )
        for place in range(3)
    ]
    store = TrajectoryStore(tmp_path / "run" / "planner" / "trajectories.sqlite", 2**24)

    async def put() -> None:
        for trajectory in kept:
            await store.put(trajectory)

    asyncio.run(put())
    store.close()
    stores = find_stores(tmp_path / "run", None)
    out = tmp_path / "out.jsonl"
    assert count(stores) == export_trajectories(stores, out, {"t1": {"reward": 0.5, "fate": 2}}, lambda n: None) == 3
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["t0", "t1", "t2"]
    assert lines[2]["version"] == {"epoch": 1, "step": 2, "updates": 2}
    assert (lines[0]["token_ids"], lines[0]["mask"], lines[0]["logprobs"]) == ([1, 2], [0, 1], [0.0, -0.5])
    assert lines[0]["messages"] == kept[0].messages
    assert [line.get("fate") for line in lines] == [None, 2, 2]  # t2 is below t1
    with pytest.raises(UserError, match="exists"):
        export_trajectories(stores, out, {}, lambda n: None)
    with pytest.raises(UserError, match="no folder of a run"):
        find_stores(tmp_path / "run", "executor")
