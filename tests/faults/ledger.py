"""The ledger: what the service has acknowledged, written down outside it, one append-only file for each process.

A line is on disk (fsync) before the client goes on, so after `kill -9` the ledger knows at most one write too few and
never one too many. Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Ledger:
    """The file of one client process; a restarted one appends to it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # A line that a kill has torn must not swallow the next one.
        os.write(self._file, b"\n")

    def record(self, *entries: dict[str, Any]) -> None:
        """Append `entries`, each with the time, and wait for the disk."""
        at = time.monotonic()
        lines = (json.dumps(entry | {"at": at}, separators=(",", ":")) for entry in entries)
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())
        os.fdatasync(self._file)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every whole entry of every ledger in `folder`."""
    for path in sorted(folder.glob("*.ledger")):
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # torn by a kill: its write may be there, and nobody was told so


def size(folder: Path) -> int:
    """How many lines the ledgers hold: a measure of progress."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.ledger"))
