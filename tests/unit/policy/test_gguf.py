"""A tiny GGUF file, written here, becomes a folder that the trainer and the samplers load."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from shared.agents.chat import ChatFormat
from shared.errors import UserError
from shared.policy.gguf import convert, main
from shared.policy.model import load_model
from shared.policy.tokenizer import load_tokenizer
from tests.unit.agents.small_tokenizers import CHATML, byte_level

WIDTH, HIDDEN, HEADS = 32, 64, 2


def write_gguf(file: Path) -> dict[str, np.ndarray]:
    """A Llama of one layer, with tied embeddings; its second matrix of the MLP is quantised. Returns its tensors."""
    writer = gguf.GGUFWriter(file, "llama")
    words = _write_tokenizer(writer)
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(words)
    shapes = {"token_embd": (words, WIDTH), "output_norm": (WIDTH,), "blk.0.attn_norm": (WIDTH,)}
    shapes |= {f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_norm": (WIDTH,), "blk.0.ffn_gate": (HIDDEN, WIDTH), "blk.0.ffn_down": (WIDTH, HIDDEN)}
    rng = np.random.default_rng(0)
    tensors = {f"{name}.weight": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    kind = gguf.GGMLQuantizationType.Q4_1
    packed = gguf.quants.quantize(rng.normal(size=(HIDDEN, WIDTH)).astype(np.float32), kind)
    writer.add_tensor("blk.0.ffn_up.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors | {"blk.0.ffn_up.weight": gguf.quants.dequantize(packed, kind)}


def _write_tokenizer(writer: gguf.GGUFWriter) -> int:
    """The small byte-level one of the tests; returns its number of words."""
    source = json.loads(byte_level().backend_tokenizer.to_str())
    words = sorted(source["model"]["vocab"], key=source["model"]["vocab"].get)
    special = {token["content"] for token in source["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.CONTROL if w in special else gguf.TokenType.NORMAL for w in words])
    writer.add_token_merges([" ".join(pair) for pair in source["model"]["merges"]])
    writer.add_bos_token_id(words.index("<|im_start|>"))
    writer.add_eos_token_id(words.index("<|im_end|>"))
    writer.add_chat_template(CHATML)
    return len(words)


def test_the_folder_has_weights_tokenizer_and_template(tmp_path: Path):
    tensors = write_gguf(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "model")
    model = load_model(tmp_path / "model", torch.device("cpu"))
    assert model.dtype == torch.float32
    assert model.config.tie_word_embeddings
    state = model.state_dict()
    for ours, theirs in {"embed_tokens": "token_embd", "layers.0.mlp.up_proj": "blk.0.ffn_up"}.items():
        np.testing.assert_allclose(state[f"model.{ours}.weight"], tensors[f"{theirs}.weight"], rtol=1e-6)
    chat = ChatFormat(load_tokenizer(tmp_path / "model"))
    chat.check()
    assert chat.decode(chat.turn("the capital of France")) == "the capital of France"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "tiny.gguf"]


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(60))
    with pytest.raises(UserError, match=r"broken\.gguf cannot be read as a causal language model"):
        convert(tmp_path / "broken.gguf", tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.gguf"]


def test_what_is_there_already_is_never_replaced(tmp_path: Path):
    file = tmp_path / "a.gguf"
    file.touch()
    for taken in (tmp_path, file):
        with pytest.raises(UserError, match="is there already: name a new folder"):
            convert(file, taken)
    assert file.exists()


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path / "none.gguf"), str(tmp_path / "model")]) == 2
    assert capsys.readouterr().err == f"tandem: there is no GGUF file {tmp_path / 'none.gguf'}\n"
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file"), str(tmp_path / "file" / "model")]) == 2
    assert capsys.readouterr().err == f"tandem: {tmp_path / 'file' / '.partial-model'}: Not a directory\n"
