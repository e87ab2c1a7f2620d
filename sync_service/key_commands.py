"""`python -m sync_service keys add|keep|list|revoke`: the keys that the database holds."""

import asyncio
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import UserError
from shared.http.key_file import EVERY_RUN, read_keys, write_key
from shared.http.keys import new_key
from shared.ids import Name
from shared.schemas.base import KEY_ROLES
from sync_service import store
from sync_service.database import Database
from sync_service.operations import keys

T = TypeVar("T")
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def add_to(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """Add the four to the command `keys`; yields the parser of each."""
    actions = parser.add_subparsers(dest="action", required=True)
    adding = actions.add_parser("add", help="make a key, and print it this once")
    adding.add_argument("--role", choices=KEY_ROLES, required=True)
    adding.add_argument("--run", metavar="NAME", help="the one run that it is bound to")
    adding.add_argument("--out", type=Path, metavar="FILE", help="a new file for the key; without it, it is printed")
    keeping = actions.add_parser("keep", help="keep the keys of a file of hashes, as --keys-file does at the start")
    keeping.add_argument("file", type=Path, metavar="FILE", help="which `tandem keys create --hashes` has written")
    listing = actions.add_parser("list", help="every key, without its secret")
    revoking = actions.add_parser("revoke", help="refuse a key from now on")
    revoking.add_argument("key", metavar="KEY", help="its id: the middle part of tandem_<id>_<secret>")
    for each in (adding, keeping, listing, revoking):
        each.add_argument("--json", action="store_true", help="print JSON")
        yield each


def run(arguments: Namespace, database_url: str) -> None:
    """Run the action; UserError for a mistake."""
    {"add": _add, "keep": _keep, "list": _list, "revoke": _revoke}[arguments.action](arguments, database_url)


def keep_file(path: Path, database_url: str) -> list[str]:
    """Keep the keys whose hashes are in the file, by their ids; UserError where it, or the database, cannot be used."""
    found = read_keys(path)
    _transaction(database_url, lambda connection: keys.keep(connection, found))
    return [key.key for key in found]


def _add(arguments: Namespace, database_url: str) -> None:
    try:
        run = None if arguments.run is None else _NAME.validate_python(arguments.run)
    except ValidationError:
        raise UserError(f"--run {arguments.run!r}: this is no name of a run") from None
    text, key = new_key(arguments.role, run)
    if arguments.out:
        write_key(arguments.out, text)  # first: a key that nobody has must not be live
    _transaction(database_url, lambda connection: keys.keep(connection, [key]))
    shown = {} if arguments.out else {"key": text}
    _show(arguments, {**shown, "id": key.key, "role": key.role, "run": key.run}, key.key if arguments.out else text)


def _keep(arguments: Namespace, database_url: str) -> None:
    kept = keep_file(arguments.file, database_url)
    _show(arguments, {"kept": kept}, "\n".join(kept))


def _list(arguments: Namespace, database_url: str) -> None:
    rows = _transaction(database_url, store.keys.everything)
    lines = [f"{r.key}  {r.role:<8}  {r.run or EVERY_RUN}  {'revoked' if r.revoked_at else 'live'}" for r in rows]
    _show(arguments, [row.model_dump() for row in rows], "\n".join(lines))


def _revoke(arguments: Namespace, database_url: str) -> None:
    _transaction(database_url, lambda connection: keys.revoke(connection, arguments.key))
    _show(arguments, {"revoked": arguments.key}, f"{arguments.key} is revoked")


def _show(arguments: Namespace, whole: Any, text: str) -> None:
    if shown := json.dumps(whole) if arguments.json else text:
        print(shown)


def _transaction(url: str, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    async def once() -> T:
        database = Database(url)
        try:
            return await database.transaction(work)
        finally:
            await database.close()

    try:
        return asyncio.run(once())
    except (SQLAlchemyError, ArgumentError) as error:
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        raise UserError(f"the database cannot be used: {reason}; is it migrated?") from None
