"""The tokenizer of a Hugging Face folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Load it from local files only; UserError names the folder that has none."""
    if not folder.is_dir():
        raise UserError(f"there is no model folder {folder}")
    from transformers import AutoTokenizer  # it takes seconds, and brings torch

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        assert tokenizer is not None
        return tokenizer
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} holds no tokenizer that can be loaded: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
