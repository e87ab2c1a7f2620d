"""Weights between trainer, sampler and checkpoint: one safetensors file in a Hugging Face folder, and its checksum."""

import hashlib
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from shared.errors import UserError
from shared.policy.model import load_model

FILE = "model.safetensors"
ONE_FILE = "1000GB"


def save_weights(model: PreTrainedModel, folder: Path, weights: dict[str, Tensor] | None = None) -> str:
    """Write weights and config as Hugging Face does, unsharded; returns the checksum of the weights' file.

    The same weights give the same bytes, so a checkpoint and a later export of it have one checksum. `weights`: those
    to write under the names of `model`, where they are not its own.
    """
    model.save_pretrained(folder, state_dict=weights, max_shard_size=ONE_FILE)
    return file_checksum(folder / FILE)


def load_weights(model: PreTrainedModel, folder: Path) -> None:
    """Overwrite the weights of `model`, in place, by those of the same architecture in `folder`.

    Tied weights are stored once and stay tied. A folder whose names differ from the module's (shards, or a format
    that Hugging Face converts) goes through its own loader. UserError: a damaged file, or weights of another model;
    those of `model` are as they were.
    """
    model.load_state_dict(read_weights(model, folder), strict=False)


def read_weights(model: PreTrainedModel, folder: Path) -> dict[str, Tensor]:
    """What `load_weights` puts into `model`, by the names of its parameters; tied ones may be missing."""
    file = folder / FILE
    state = read_tensors(file) if file.is_file() else {}
    if not _covers(state, model):
        state = load_model(folder, model.device).state_dict()
    for name, parameter in model.state_dict().items():
        if name in state and state[name].shape != parameter.shape:
            shapes = f"{tuple(state[name].shape)} and not {tuple(parameter.shape)}"
            raise UserError(f"{folder} holds weights of another model: {name} is {shapes}")
    return state


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; UserError where it is damaged."""
    try:
        return load_file(file)
    except SafetensorError as error:
        raise UserError(f"{file} is damaged: {error}") from None


def file_checksum(path: Path) -> str:
    """sha256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _covers(state: dict[str, Tensor], model: PreTrainedModel) -> bool:
    names = model.state_dict().keys()
    tied = model.all_tied_weights_keys or {}
    return state.keys() <= names and names - state.keys() <= tied.keys()
