"""`tandem keys`: make, list and revoke keys; their hashes are in a file, or in the sync service's database."""

import json
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from shared.cli.options import AsJson
from shared.errors import UserError
from shared.schemas.base import KeyRole

if TYPE_CHECKING:
    from shared.http.keys import Key

SERVICE = "sync-service"
DATABASE_URL = "TANDEM_DATABASE_URL"
Hashes = Annotated[Path | None, typer.Option(help="A file of hashes, which servers read.")]
Database = Annotated[
    str | None, typer.Option("--database-url", help="The sync service's database; also from $TANDEM_DATABASE_URL.")
]
Embedded = Annotated[Path | None, typer.Option(metavar="DIR", help="The sync service's own database, while it is off.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    keys = typer.Typer(name="keys", help="Make, list and revoke keys.", no_args_is_help=True)
    keys.command()(create)
    keys.command("list")(list_keys)
    keys.command()(revoke)
    app.add_typer(keys)


def create(
    role: Annotated[KeyRole, typer.Option(help="What the key may do.")],
    run: Annotated[str | None, typer.Option(help="The one run that it is bound to.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new file for the key; without it, it is printed.")] = None,
    hashes: Hashes = None,
    database_url: Database = None,
    embedded: Embedded = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its holder gets the key, which is shown once; its hash goes to a file, to the database or is printed.

    Examples: tandem keys create --role planner --run museum-1 --out planner.key --hashes keys;
    tandem keys create --role viewer --database-url postgresql://tandem@db/tandem
    """
    from pydantic import TypeAdapter, ValidationError

    from shared.http.key_file import line_of, write_key
    from shared.http.keys import new_key
    from shared.ids import Name

    if (place := _database(hashes, database_url, embedded)) is not None:
        words = ["add", "--role", role, *(["--run", run] if run is not None else [])]
        _service([*words, *(["--out", str(out)] if out else [])], place, as_json)
    try:  # "" would be every run
        text, key = new_key(role, None if run is None else TypeAdapter(Name).validate_python(run))
    except ValidationError:
        raise UserError(f"--run {run!r}: this is no name of a run") from None
    line = line_of(key)
    if out:
        write_key(out, text)
    if hashes:
        _append(hashes, line)
    shown = {} if out else {"key": text}
    shown |= {} if hashes else {"line": line}
    print(json.dumps({"id": key.key, **shown}) if as_json else "\n".join(shown.values()) or key.key)


def list_keys(
    hashes: Hashes = None, database_url: Database = None, embedded: Embedded = None, as_json: AsJson = False
) -> None:
    """List keys, without their secrets.

    Examples: tandem keys list --hashes keys; tandem keys list --database-url postgresql://tandem@db/tandem
    """
    file = _file(hashes, database_url, embedded, ["list"], as_json)
    found = _read(file)
    if as_json:
        print(json.dumps([{"key": key.key, "role": key.role, "run": key.run} for key in found]))
    else:
        print("\n".join(f"{key.key}  {key.role:<8}  {key.run or '*'}" for key in found))


def revoke(
    key: Annotated[str, typer.Argument(help="Its id: the middle part of tandem_<id>_<secret>.", show_default=False)],
    hashes: Hashes = None,
    database_url: Database = None,
    embedded: Embedded = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key, for good: it is refused within 2 seconds.

    Examples: tandem keys revoke 4a1a651fa2bd --hashes keys;
    tandem keys revoke 4a1a651fa2bd --database-url postgresql://tandem@db/tandem
    """
    file = _file(hashes, database_url, embedded, ["revoke", key], as_json)
    if key not in {known.key for known in _read(file)}:
        raise UserError(f"{file} has no key {key}")
    _rewrite(file, [line for line in file.read_text().splitlines() if line.split()[:1] != [key]])
    print(json.dumps({"revoked": key}) if as_json else f"{key} is revoked")


def _file(
    hashes: Path | None, database_url: str | None, embedded: Path | None, words: list[str], as_json: bool
) -> Path:
    """The file of hashes that is meant. Where a database is, the sync service does it, by `words`, and we exit."""
    place = _database(hashes, database_url, embedded)
    if hashes is None and place is None and not os.environ.get(DATABASE_URL):
        raise UserError("whose keys? --hashes FILE, or the database: --database-url, --embedded")
    return hashes if hashes is not None else _service(words, place or [], as_json)


def _database(hashes: Path | None, database_url: str | None, embedded: Path | None) -> list[str] | None:
    """The options that name the database to the sync service; None where none is given."""
    if sum(place is not None for place in (hashes, database_url, embedded)) > 1:
        raise UserError("one of --hashes, --database-url and --embedded: a key is in one place")
    if database_url is not None:
        return ["--database-url", database_url]
    return ["--embedded", str(embedded)] if embedded is not None else None


def _service(words: list[str], place: list[str], as_json: bool) -> NoReturn:
    """Let the sync service's own command do it, and exit as it does: only it knows the database."""
    (entry,) = entry_points(group="tandem.commands", name=SERVICE)
    sys.exit(entry.load()(["keys", *words, *place, *(["--json"] if as_json else [])]))


def _read(hashes: Path) -> list["Key"]:
    from shared.http.key_file import read_keys

    return read_keys(hashes)


def _append(hashes: Path, line: str) -> None:
    try:
        with hashes.open("a") as file:
            file.write(line + "\n")
    except OSError as error:
        raise UserError(f"--hashes {hashes}: {error.strerror}") from None


def _rewrite(hashes: Path, lines: list[str]) -> None:
    """As a whole, by a rename, and with the same mode: a server that reads meanwhile finds the old or the new one."""
    beside = hashes.with_name(f".{hashes.name}.new")
    try:
        beside.write_text("".join(f"{line}\n" for line in lines))
        beside.chmod(hashes.stat().st_mode & 0o777)
        beside.replace(hashes)
    except OSError as error:
        raise UserError(f"--hashes {hashes}: {error.strerror}") from None
