"""Secrets of a server: from the environment, or from a file; never from the configuration itself, which is saved."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from shared.errors import UserError

NAMES = re.compile(r"TANDEM_\w+_KEY|VLLM_API_KEY")


def secret(name: str, file: Path | None = None) -> str | None:
    """The text of `file`; without one that of $TANDEM_<name>, or of the file that $TANDEM_<name>_FILE names; or None.

    UserError where a file that is named cannot be read, or is empty, and for what no header of a request can carry.
    """
    variable = f"TANDEM_{name}"
    named = file or os.environ.get(f"{variable}_FILE")
    if named is None:
        text = os.environ.get(variable) or None
        return text if text is None else _carried(variable, text)
    try:
        text = Path(named).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"the secret {variable} cannot be read from {named}: {reason}") from None
    if not text:
        raise UserError(f"the secret {variable} cannot be read from {named}: it is empty")
    return _carried(variable, text)


def secret_names(environment: Iterable[str]) -> list[str]:
    """Those variables of `environment` that hold a key: of no use to the processes that a server starts."""
    return [name for name in environment if NAMES.fullmatch(name)]


def _carried(variable: str, text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise UserError(f"the secret {variable} is no key: it has characters other than those of one line of ASCII")
    return text
