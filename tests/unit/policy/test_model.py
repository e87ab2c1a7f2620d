import json
import shutil

import pytest
import torch
from transformers import Lfm2Config, Lfm2ForCausalLM

from shared.errors import UserError
from shared.policy.folder import check_positions
from shared.policy.model import load_model, resolve_device
from shared.policy.tokenizer import load_tokenizer
from shared.policy.weights import file_checksum, load_weights, save_weights

from .tiny import build_model, save_model

CPU = torch.device("cpu")


def test_a_folder_gives_its_model_and_tokenizer(model_folder):
    model = load_model(model_folder, CPU)
    assert not model.training
    assert load_tokenizer(model_folder).encode("w5 w6") == [5, 6]


def test_a_missing_folder_is_named(tmp_path):
    for load in (lambda folder: load_model(folder, CPU), load_tokenizer):
        with pytest.raises(UserError, match="nowhere"):
            load(tmp_path / "nowhere")


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    build_model().save_pretrained(tmp_path / "bare")
    with pytest.raises(UserError, match="bare"):
        load_tokenizer(tmp_path / "bare")


def damage_weights(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 100)


def change_architecture(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "no-such-model", "architectures": ["No"]}))


def add_a_layer(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))


def widen(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 65}))


def only_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize("damage", [damage_weights, change_architecture, add_a_layer, widen, only_pickle])
def test_a_folder_that_is_no_whole_model_is_named(model_folder, damage):
    damage(model_folder)
    with pytest.raises(UserError, match=str(model_folder)):
        load_model(model_folder, CPU)


def test_cuda_without_cuda_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == CPU
    with pytest.raises(UserError, match="cuda:1"):
        resolve_device("cuda:1")
    with pytest.raises(UserError, match="'banana' is no device"):
        resolve_device("banana")


@pytest.mark.parametrize("tied", [True, False])
def test_weights_travel_exactly_and_stay_tied(tmp_path, tied):
    source, target = build_model(tied=tied, seed=1), build_model(tied=tied, seed=2)
    checksum = save_weights(source, tmp_path / "w")
    load_weights(target, tmp_path / "w")
    assert all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in target.state_dict().items())
    assert (target.lm_head.weight is target.model.embed_tokens.weight) is tied
    assert save_weights(target, tmp_path / "again") == checksum == file_checksum(tmp_path / "again/model.safetensors")


def test_weights_of_a_sharded_folder_load(tmp_path, model_folder):
    source = build_model(seed=1)
    source.save_pretrained(tmp_path / "shards", max_shard_size="50KB")
    assert not (tmp_path / "shards/model.safetensors").exists()
    target = load_model(model_folder, CPU)
    load_weights(target, tmp_path / "shards")
    assert all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in target.state_dict().items())


def test_a_model_with_layers_without_attention_is_refused(tmp_path):
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = Lfm2Config(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, layer_types=["conv", "full_attention"], **heads
    )
    Lfm2ForCausalLM(config).save_pretrained(tmp_path / "m")
    with pytest.raises(UserError, match="Lfm2ForCausalLM has layers without attention"):
        load_model(tmp_path / "m", CPU)


def test_positions_that_depend_on_the_longest_row_are_refused(tmp_path):
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32, "factor": 4.0}
    rope |= {"short_factor": [1.0] * 16, "long_factor": [8.0] * 16}
    folder = save_model(tmp_path / "long", rope_parameters=rope)
    with pytest.raises(UserError, match="longrope"):
        load_model(folder, CPU)


def test_more_tokens_than_the_positions_hold_are_refused_before_the_first_one(model_folder):
    check_positions(model_folder, 128)
    with pytest.raises(UserError, match=r"max_context_tokens is 129, but .* has positions for 128"):
        check_positions(model_folder, 129)


def test_custom_keys_of_the_config_survive(tmp_path):
    folder = save_model(tmp_path / "frozen", frozen_embedding_rows=[10, 20])
    save_weights(load_model(folder, CPU), tmp_path / "saved")
    shutil.rmtree(folder)
    assert load_model(tmp_path / "saved", CPU).config.frozen_embedding_rows == [10, 20]
