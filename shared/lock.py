"""A folder that one process has for itself. The system gives the lock back when the process ends, however it ends."""

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import UserError


@contextmanager
def locked(folder: Path, works: str = "works") -> Generator[None]:
    """Hold `folder`, which exists, for this process alone; UserError says that another one `works` in it."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process {works} in {folder}") from None
        yield
