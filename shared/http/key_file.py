"""A file of key hashes: one key a line, `<id> <role> <run or *> <SHA-256 of the key>`; `#` starts a comment.

It holds no secret. `tandem keys create` writes such lines.
"""

import os
import time
from pathlib import Path

import structlog
from pydantic import TypeAdapter, ValidationError

from shared.errors import UserError
from shared.http.keys import Key, KeyRing
from shared.ids import Name
from shared.schemas.base import KEY_ROLES

log = structlog.get_logger()

LOOK_S = 1.0
"""How often the file is looked at, at most; a revoked key is refused after that."""
EVERY_RUN = "*"
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def line_of(key: Key) -> str:
    """The line that stands for `key`."""
    return f"{key.key} {key.role} {key.run or EVERY_RUN} {key.hash.hex()}"


def read_keys(path: Path) -> list[Key]:
    """The keys of the file; UserError names the file and the line that is wrong."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"the file of keys {path} cannot be read: {reason}") from None
    bare = ((number, line.partition("#")[0].split()) for number, line in enumerate(lines, start=1))
    return [_key(f"{path}:{number}", words) for number, words in bare if words]


def _key(place: str, words: list[str]) -> Key:
    try:
        id, role, run, digest = words
        hash = bytes.fromhex(digest)
        name = None if run == EVERY_RUN else _NAME.validate_python(run)
    except (ValueError, ValidationError):
        raise UserError(f"{place}: a key is a line of: id, role, run or *, SHA-256 of the key") from None
    if role not in KEY_ROLES or len(hash) != 32:
        raise UserError(f"{place}: {role} is no role of a key, or its hash is no SHA-256")
    return Key(id, role, name, hash)


class FileRing:
    """The ring of a file, read again when it changes. One that is wrong by then changes nothing, and is logged."""

    def __init__(self, path: Path) -> None:
        """UserError where the file is wrong at the start."""
        self._path = path
        self._seen = self._stamp()
        self._ring = KeyRing(read_keys(path))
        self._look_at = time.monotonic() + LOOK_S

    def find(self, text: str) -> Key | None:
        """The live key that `text` is."""
        if time.monotonic() >= self._look_at:
            self._refresh()
        return self._ring.find(text)

    def _refresh(self) -> None:
        self._look_at = time.monotonic() + LOOK_S
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._ring = KeyRing(read_keys(self._path))
        except UserError as error:
            log.error("keys-not-read", reason=error.detail)

    def _stamp(self) -> tuple[int, ...] | None:
        """Another one after any change: of the time of change, too, as a file that can be read again is no newer."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def write_key(path: Path, text: str) -> None:
    """Write the text of a key to a new file that only its owner may read; UserError where it cannot be made."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UserError(f"the key cannot be written to {path}: {error.strerror}") from None
    with open(file, "w") as out:
        out.write(text + "\n")
