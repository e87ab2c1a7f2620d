"""The folder that vLLM reads has a head of its own, whatever the model's has."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from shared.errors import UserError
from shared.policy.vllm.folder import HEAD, MAIN, checksum, head_bytes, parameter_count, write_folder
from shared.policy.weights import file_checksum, save_weights

from ..tiny import build_model


def logits(folder):
    tokens = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(tokens).logits


@pytest.mark.parametrize("tied", [True, False])
def test_it_is_the_same_model_with_a_head_and_keeps_the_trainers_checksum(model, tmp_path, tied):
    (tmp_path / "weights").mkdir()
    written = save_weights(build_model(seed=1, tied=tied), tmp_path / "weights")
    target = tmp_path / "target"
    write_folder(tmp_path / "weights", model, target)
    assert torch.equal(logits(target), logits(tmp_path / "weights"))
    assert json.loads((target / "config.json").read_text())["tie_word_embeddings"] is False
    assert checksum(target) == written == file_checksum(target / MAIN)
    assert (target / HEAD).exists() == tied
    assert (target / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    head = build_model(seed=1, tied=tied).get_output_embeddings().weight
    assert b"".join(head_bytes(target)) == head.detach().numpy().tobytes()


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_in_shards(tmp_path, tied):
    build_model(tied=tied).save_pretrained(tmp_path / "shards", max_shard_size="50KB")
    assert not (tmp_path / "shards/model.safetensors").exists()
    write_folder(tmp_path / "shards", tmp_path / "shards", tmp_path / "target")
    assert torch.equal(logits(tmp_path / "target"), logits(tmp_path / "shards"))
    assert parameter_count(tmp_path / "shards") == sum(p.numel() for p in build_model(tied=tied).parameters())
    assert len(checksum(tmp_path / "target")) == 64


def test_the_optimisers_state_of_a_checkpoint_stays_out(model, tmp_path):
    (tmp_path / "checkpoint").mkdir()
    save_weights(build_model(), tmp_path / "checkpoint")
    save_file({"exp_avg.x": torch.zeros(3)}, tmp_path / "checkpoint/optimizer.safetensors")
    write_folder(tmp_path / "checkpoint", model, tmp_path / "target")
    assert not (tmp_path / "target/optimizer.safetensors").exists()


def test_an_embedding_of_another_name_is_refused(tmp_path):
    build_model().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["words.weight"] = tensors.pop("model.embed_tokens.weight")
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="tied to an embedding that is none of"):
        write_folder(tmp_path, tmp_path, tmp_path / "target")


def test_the_command_writes_what_a_server_is_started_on(model, tmp_path):
    def command(folder):
        arguments = [sys.executable, "-m", "shared.policy.vllm.folder", str(folder), str(tmp_path / "target")]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=60)

    assert command(model).returncode == 0
    assert torch.equal(logits(tmp_path / "target"), logits(model))
    missing = command(tmp_path / "nowhere")
    assert (missing.returncode, missing.stderr.strip()) == (1, f"there is no model folder {tmp_path / 'nowhere'}")
