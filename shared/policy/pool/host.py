"""What an actor runs: one torch process of a policy, on the machine where Ray put it, and that machine's files for it.

The actor itself imports no torch, and answers while its process is busy or stuck.
"""

import asyncio
import shutil
import socket
from collections.abc import Awaitable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray

from shared.errors import TandemError, UserError
from shared.lock import OwnFolder
from shared.policy.child import Child

PREFIX = "tandem-host-"
PACKAGE = "tandem-cotrain"


class Host:
    """A `Child`, with errors as answers. `folder` is its own, on this machine's disk."""

    def __init__(self) -> None:
        self._place = OwnFolder(PREFIX)
        self._folder = self._place.path
        self._child: Child | None = None

    async def where(self) -> dict[str, Any]:
        """This machine's id and address in the cluster, a port that is free on it, and the actor's folder."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        node = ray.get_runtime_context().get_node_id()
        return {"node": node, "address": ray.util.get_node_ip_address(), "port": port, "folder": str(self._folder)}

    async def start(self, kind: str, settings: dict[str, Any], log: str, threads: int, package: str) -> dict[str, Any]:
        """Start the process; the answer is its `info`. UserError: another version of Tandem is installed here."""
        return await _answer(self._start(kind, settings, Path(log), threads, package))

    async def call(self, method: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """`Child.call`."""
        assert self._child is not None
        return await _answer(self._child.call(method, arguments, timeout_s))

    async def died(self) -> str:
        """`Child.died`."""
        assert self._child is not None
        return await self._child.died()

    async def close(self, timeout_s: float) -> None:
        """End the process, within the bound, and remove the folder."""
        if self._child is not None:
            await self._child.close(timeout_s)
        self._place.remove()

    async def write(self, folder: str, name: str, offset: int, data: bytes) -> None:
        """Put a part of a file into a folder below the actor's own; offset 0 begins it anew."""
        await asyncio.to_thread(self._write, self._own(folder) / Path(name).name, offset, data)

    async def files(self, folder: str) -> list[str]:
        """The names of the files in a folder below the actor's own."""
        return sorted(file.name for file in self._own(folder).iterdir() if file.is_file())

    async def read(self, folder: str, name: str, offset: int, size: int) -> bytes:
        """A part of such a file; empty at its end."""
        return await asyncio.to_thread(self._read, self._own(folder) / Path(name).name, offset, size)

    async def make(self, folder: str) -> None:
        """An empty folder below the actor's own."""
        await self.remove(folder)
        self._own(folder).mkdir(parents=True)

    async def remove(self, folder: str) -> None:
        """Remove such a folder."""
        shutil.rmtree(self._own(folder), ignore_errors=True)

    async def _start(
        self, kind: str, settings: dict[str, Any], log: Path, threads: int, package: str
    ) -> dict[str, Any]:
        if version(PACKAGE) != package:
            raise UserError(f"{socket.gethostname()} has {PACKAGE} {version(PACKAGE)}, the role's server {package}")
        self._child = await Child.spawn(kind, settings, log, threads)
        await self._child.ready()
        return self._child.info

    def _own(self, folder: str) -> Path:
        path = self._folder / folder
        assert path.resolve().is_relative_to(self._folder.resolve())
        return path

    def _write(self, file: Path, offset: int, data: bytes) -> None:
        with file.open("r+b" if offset else "wb") as target:
            target.seek(offset)
            target.write(data)

    def _read(self, file: Path, offset: int, size: int) -> bytes:
        with file.open("rb") as source:
            source.seek(offset)
            return source.read(size)


async def _answer(call: Awaitable[Any]) -> dict[str, Any]:
    try:
        return {"result": await call}
    except TandemError as error:
        return {"error": error.problem()}
