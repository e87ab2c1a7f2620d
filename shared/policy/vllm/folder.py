"""The model folder that vLLM reads: always with a head of its own.

vLLM's reload of a model whose head is its embedding answers 200 and keeps the old head. So the folder says that the
two are not tied, and holds the head beside the weights, as one more shard of a sharded Hugging Face model.
"""

import hashlib
import json
import math
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.errors import UserError, from_os_error
from shared.policy.folder import check_model_folder

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
MAIN, HEAD = "model-main.safetensors", "model-head.safetensors"
HEAD_NAMES = ("lm_head.weight", "embed_out.weight")
EMBEDDING_NAMES = ("model.embed_tokens.weight", "transformer.wte.weight", "model.language_model.embed_tokens.weight")
LENGTH = struct.Struct("<Q")
CHUNK = 2**24

Tensors = dict[str, dict[str, Any]]
"""Of a safetensors file: each tensor's dtype, shape and data_offsets, by name."""


def write_folder(weights: Path, model: Path, target: Path) -> None:
    """Make `target` a folder that vLLM can load: the weights of `weights`, and the tokenizer of the `model` folder.

    The two may be one. Weights are linked where they can be: only a missing head is written. UserError names a folder
    whose head cannot be made explicit.
    """
    target.mkdir(parents=True, exist_ok=True)
    for file in model.iterdir():
        if file.is_file() and not file.name.endswith((".safetensors", ".index.json", ".bin", ".pt", ".pth", ".gguf")):
            shutil.copyfile(file, target / file.name)
    config = json.loads((weights / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(_untied(config), indent=2))
    places: dict[str, str] = {}
    for file in _shards(weights):
        name = MAIN if file.name == SINGLE else file.name
        places |= dict.fromkeys(read_tensors(file)[0], name)
        _link(file, target / name)
    if not any(name in places for name in HEAD_NAMES):
        _copy_head(target, places)
        places[HEAD_NAMES[0]] = HEAD
    (target / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def checksum(folder: Path) -> str:
    """sha256 of the weights of a folder that `write_folder` wrote, without the head that it made: of the file as the
    trainer wrote it, or of all shards in their order."""
    digest = hashlib.sha256()
    for name in sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()) - {HEAD}):
        with (folder / name).open("rb") as file:
            while data := file.read(CHUNK):
                digest.update(data)
    return digest.hexdigest()


def parameter_count(model: Path) -> int:
    """Parameters of a model folder, tied ones once."""
    tensors = (tensor for file in _shards(model) for tensor in read_tensors(file)[0].values())
    return sum(math.prod(tensor["shape"]) for tensor in tensors)


def _shards(folder: Path) -> list[Path]:
    """The files with the model's weights: a checkpoint holds the optimiser's beside them."""
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not (folder / INDEX).is_file():
        raise UserError(f"{folder} holds neither {SINGLE} nor {INDEX}")
    return [folder / name for name in sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))]


def read_tensors(file: Path) -> tuple[Tensors, int]:
    """The tensors of a safetensors file, and where its data begins."""
    with file.open("rb") as read:
        (length,) = LENGTH.unpack(read.read(LENGTH.size))
        tensors = json.loads(read.read(length))
    tensors.pop("__metadata__", None)
    return tensors, LENGTH.size + length


def _untied(config: dict[str, Any]) -> dict[str, Any]:
    nested = {"text_config": config["text_config"] | {"tie_word_embeddings": False}} if "text_config" in config else {}
    return config | nested | {"tie_word_embeddings": False}


def head_bytes(folder: Path) -> Iterator[bytes]:
    """The bytes of the head in a folder that `write_folder` wrote, in pieces."""
    places = json.loads((folder / INDEX).read_text())["weight_map"]
    name = next(name for name in HEAD_NAMES if name in places)
    yield from _bytes(folder / places[name], name)


def _copy_head(target: Path, places: dict[str, str]) -> None:
    """The bytes of the embedding, as the head, in a safetensors file of their own."""
    embedding = next((name for name in EMBEDDING_NAMES if name in places), None)
    if embedding is None:
        raise UserError(f"{target}: its head is tied to an embedding that is none of {', '.join(EMBEDDING_NAMES)}")
    source = target / places[embedding]
    tensor = read_tensors(source)[0][embedding]
    first, last = tensor["data_offsets"]
    head = {HEAD_NAMES[0]: tensor | {"data_offsets": [0, last - first]}}
    text = json.dumps({"__metadata__": {"format": "pt"}} | head).encode()
    with (target / HEAD).open("wb") as write:
        write.write(LENGTH.pack(len(text)) + text)
        write.writelines(_bytes(source, embedding))


def _bytes(file: Path, name: str) -> Iterator[bytes]:
    tensors, start = read_tensors(file)
    first, last = tensors[name]["data_offsets"]
    with file.open("rb") as read:
        read.seek(start + first)
        left = last - first
        while left and (data := read.read(min(left, CHUNK))):
            left -= len(data)
            yield data


def _link(source: Path, target: Path) -> None:
    """A second name of the same bytes; a copy where the two are on different file systems."""
    target.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def main() -> None:
    """`python -m shared.policy.vllm.folder MODEL FOLDER`: the copy of a model that a vLLM server is started on."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m shared.policy.vllm.folder MODEL FOLDER")
    model, target = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        check_model_folder(model)
        write_folder(model, model, target)
    except (UserError, OSError) as error:
        sys.exit((from_os_error(error) if isinstance(error, OSError) else error).detail)


if __name__ == "__main__":
    main()
