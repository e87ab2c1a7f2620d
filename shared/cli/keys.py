"""`tandem keys`: make a key, for a server that reads the hashes of its keys from a file."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from shared.errors import UserError
from shared.http.key_file import line_of, write_key
from shared.http.keys import new_key
from shared.ids import Name
from shared.schemas.base import KeyRole

_NAME: TypeAdapter[str] = TypeAdapter(Name)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(keys)


def keys(
    role: Annotated[KeyRole, typer.Option(help="What the key may do.")],
    run: Annotated[str | None, typer.Option(help="The one run that it is bound to.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new file for the key; without it, it is printed.")] = None,
    hashes: Annotated[Path | None, typer.Option(help="A file to add its hash to; without it, it is printed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a key. Its holder gets the key, which is shown once; the servers get the line with its hash.

    Example: tandem keys --role planner --run museum-1 --out planner.key --hashes keys
    """
    try:
        text, key = new_key(role, None if run is None else _NAME.validate_python(run))  # "" would be every run
    except ValidationError:
        raise UserError(f"--run {run!r}: this is no name of a run") from None
    line = line_of(key)
    if out:
        write_key(out, text)
    if hashes:
        _append(hashes, line)
    shown = {} if out else {"key": text}
    shown |= {} if hashes else {"line": line}
    if as_json:
        print(json.dumps({"id": key.key, **shown}))
    else:
        print("\n".join(shown.values()) or key.key)


def _append(hashes: Path, line: str) -> None:
    try:
        with hashes.open("a") as file:
            file.write(line + "\n")
    except OSError as error:
        raise UserError(f"--hashes {hashes}: {error.strerror}") from None
