"""The options that every operator's command shares: where the sync service is, whose key calls it, JSON or a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared.errors import UserError

if TYPE_CHECKING:  # httpx is imported where a command calls
    from shared.cli.server import Server

SYNC_URL = "http://127.0.0.1:8700"
FAULT_EXIT = 1
"""A check found something wrong. A mistake, a refusal or a server that is away is exit code 2, Ctrl-C 130."""

Url = Annotated[str, typer.Option("--url", envvar="TANDEM_SYNC_URL", help="Where the sync service is.")]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", envvar="TANDEM_KEY_FILE", help="The file with your key; without keys, none is needed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Run = Annotated[str, typer.Argument(help="The run's name.", show_default=False)]
AnyRun = Annotated[
    str | None,
    typer.Argument(help="The run's name; left out, it is the only run, or the only one that goes on."),
]


def sync_server(url: str, key_file: Path | None) -> "Server":
    """The sync service, called with the key of that file."""
    from shared.cli.server import Server

    return Server(url, read_key(key_file), "the sync service")


def read_key(path: Path | None) -> str | None:
    """The key in a file, None where no file is named. UserError: it cannot be read, or holds no key."""
    from shared.http.keys import FORM

    if path is None:
        return None
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"--key-file {path}: {reason}") from None
    if not FORM.fullmatch(text):
        raise UserError(f"--key-file {path}: it holds no key, which is written tandem_<id>_<secret>")
    return text
