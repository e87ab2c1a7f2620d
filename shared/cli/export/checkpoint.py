"""A checkpoint as a plain Hugging Face folder: weights, config, tokenizer, chat template; nothing that only we read."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.cli.export.card import card
from shared.errors import UserError, from_os_error
from shared.policy.checkpoints import META
from shared.policy.folder import OPTIMIZER_FILE, check_model_folder

WEIGHTS = "model.safetensors"
GENERATION = "generation_config.json"
OURS = (META, OPTIMIZER_FILE)
PUBLIC = re.compile(
    r"config\.json|generation_config\.json|.*\.safetensors(\.index\.json)?"
    r"|(tokenizer|special_tokens|added_tokens|vocab|chat_template).*\.(json|txt|jinja|model)|merges\.txt|.*\.model"
    r"|(LICENSE|NOTICE)[^/]*"
)
"""What may leave, by name: so no pickle, no code, nothing of the trainer's."""
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
CHUNK = 1 << 20


def public_files(checkpoint: Path) -> list[Path]:
    """The files of a checkpoint that belong to the model."""
    return sorted(f for f in checkpoint.iterdir() if f.is_file() and PUBLIC.fullmatch(f.name) and f.name not in OURS)


def export_checkpoint(checkpoint: Path, to: Path, advance: Callable[[int], None]) -> list[str]:
    """Write the folder `to`, as a whole or not at all; the names in it. `advance` is told the bytes that are copied.

    UserError: `to` is there already, or the checkpoint is damaged or no model.
    """
    check_model_folder(checkpoint)
    if to.exists():
        raise UserError(f"{to} exists; --to is a new folder")
    meta = read_meta(checkpoint)
    beside = to.with_name(f".partial-{to.name}")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for file in public_files(checkpoint):
            digest = _copy(file, beside / file.name, advance)
            if file.name == WEIGHTS and digest != meta["checksum"]:
                raise UserError(f"{file} is damaged: its checksum is not the one that was saved with it")
        _complete(beside, checkpoint, meta)
        beside.rename(to)
    except OSError as error:
        raise from_os_error(error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return sorted(file.name for file in to.iterdir())


def read_meta(checkpoint: Path) -> dict[str, Any]:
    """What the trainer noted of the checkpoint; UserError where it is spoilt."""
    try:
        meta = json.loads((checkpoint / META).read_text())
        return {key: meta[key] for key in ("run", "role", "step", "updates", "checksum", "pending_ack")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{checkpoint / META} is not that of a checkpoint: {str(error).splitlines()[0]}") from None


def _copy(source: Path, target: Path, advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as write:
        while chunk := read.read(CHUNK):
            write.write(chunk)
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()


def _complete(folder: Path, checkpoint: Path, meta: dict[str, Any]) -> None:
    """The card; and a generation config where the model came without one, so that generation ends where turns end."""
    config = json.loads((folder / "config.json").read_text())
    if not (folder / GENERATION).exists():
        tokens = {name: config[name] for name in TOKENS if config.get(name) is not None}
        (folder / GENERATION).write_text(json.dumps(tokens, indent=2) + "\n")
    (folder / "README.md").write_text(card(checkpoint, meta, config))
