"""A folder that one process has for itself. The system gives the lock back when the process ends, however it ends."""

import fcntl
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
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


class OwnFolder:
    """A folder for temporary files of this process, `path`; those that killed ones left under `prefix` are removed."""

    def __init__(self, prefix: str) -> None:
        for lock in Path(tempfile.gettempdir()).glob(f"{prefix}*/.lock"):
            with suppress(OSError), lock.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
        self._lock = (made / ".lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = made.rename(made.with_name(made.name[1:]))  # nobody finds it before it is locked

    def remove(self) -> None:
        """Its files are of no use any more."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()
