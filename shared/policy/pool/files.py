"""Folders between machines: in parts, through Ray's object store, so that no file need fit into it.

A machine that has the file itself gets its path. Who reads a file checks its checksum: this only carries bytes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.policy.folder import OPTIMIZER_FILE

PART_BYTES = 2**26


async def push(folder: Path, host: Any, target: str, *, optimizer: bool) -> None:
    """Copy the files of `folder` to the host's folder `target`; the optimiser's state only where it is asked for."""
    await host.make.remote(target)
    for file in _files(folder, optimizer):
        offset = 0
        for part in _parts(file):
            await host.write.remote(target, file.name, offset, part)
            offset += len(part)


async def pull(host: Any, source: str, folder: Path) -> None:
    """Copy the files of the host's folder `source` into `folder`."""
    for name in await host.files.remote(source):
        with (folder / Path(name).name).open("wb") as file:
            offset = 0
            while part := await host.read.remote(source, name, offset, PART_BYTES):
                file.write(part)
                offset += len(part)


def _files(folder: Path, optimizer: bool) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and (optimizer or file.name != OPTIMIZER_FILE))


def _parts(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        first = source.read(PART_BYTES)
        yield first  # an empty file is a part, too
        while part := source.read(PART_BYTES):
            yield part
