"""The weights that the replicas of a pool are to have: kept while one may still start, and has to load them."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Conflict
from shared.policy.folder import OPTIMIZER_FILE
from shared.schemas.base import PolicyVersion


@dataclass(eq=False, slots=True)
class Snapshot:
    """A folder of weights; `checksum` is what the first replica answered that loaded them."""

    folder: Path
    version: PolicyVersion
    checksum: str | None = None

    def confirm(self, checksum: str) -> None:
        """One more replica has loaded them; Conflict where it read other bytes than the first."""
        if self.checksum not in (None, checksum):
            raise Conflict(f"a sampler replica loaded weights with checksum {checksum}, another {self.checksum}")
        self.checksum = checksum


class Snapshots:
    """`current` is what the replicas are to have; None: the model that they started from. Two are kept on disk."""

    def __init__(self, folder: Path) -> None:
        self.current: Snapshot | None = None
        self._folder = folder
        self._kept: list[Path] = []
        self._count = 0
        self.clear()

    async def take(self, folder: Path, version: PolicyVersion) -> Snapshot:
        """Make the weights in `folder` the current ones; the folder may go afterwards."""
        self._count += 1
        kept = self._folder / str(self._count)
        await asyncio.to_thread(_link, folder, kept)
        self._kept.append(kept)
        while len(self._kept) > 2:  # a replica that is just starting may still read the one before
            shutil.rmtree(self._kept.pop(0), ignore_errors=True)
        self.current = Snapshot(kept, version)
        return self.current

    def clear(self) -> None:
        """Remove them from the disk."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    """The files of `source` under another name, copied only where they cannot be linked."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file() and file.name != OPTIMIZER_FILE:
            try:
                os.link(file, target / file.name)
            except OSError:
                shutil.copyfile(file, target / file.name)
