"""A first look at a model folder, without torch: a wrong path is found before anything slow is started."""

import json
from pathlib import Path

from shared.errors import UserError

OPTIMIZER_FILE = "optimizer.safetensors"
"""What a checkpoint holds beside the model; only a trainer reads it."""


def check_positions(folder: Path, tokens: int, limits: str = "limits") -> None:
    """UserError where the model's positions, if its config names them, hold fewer than `tokens`, as `limits` allow."""
    positions = json.loads((folder / "config.json").read_text()).get("max_position_embeddings")
    if isinstance(positions, int) and tokens > positions:
        raise UserError(f"{limits}.max_context_tokens is {tokens}, but {folder} has positions for {positions} tokens")


def check_model_folder(folder: Path) -> None:
    """UserError names a folder that is missing or holds no safetensors model."""
    if not folder.is_dir():
        raise UserError(f"there is no model folder {folder}")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is no Hugging Face model folder: it has no config.json")
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"{folder} holds no safetensors weights; other formats are not read")
