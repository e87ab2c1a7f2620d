"""How a folder with weights gets to the host of the vLLM server: it is there already, or is sent over HTTP."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import httpx

from shared.errors import Unavailable, from_problem

CHUNK = 2**22


class Carrier(Protocol):
    """`folder` is where folders for it are written, here."""

    folder: Path

    async def carry(self, folder: Path, timeout_s: float) -> str:
        """Bring `folder` to the server's host; returns its path there."""
        ...

    async def drop(self, folder: Path) -> None:
        """The server has read it."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class SharedFolder:
    """Both hosts see `folder` under this path, or there is one host only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def carry(self, folder: Path, timeout_s: float) -> str:
        """Nothing is to be done."""
        return str(folder)

    async def drop(self, folder: Path) -> None:
        """Remove it."""
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def close(self) -> None:
        """There are none."""


class Mirror(SharedFolder):
    """Sends each file with its checksum to a `shared.policy.vllm.mirror`, which keeps the last folder."""

    def __init__(self, folder: Path, url: str, transport: httpx.AsyncBaseTransport, key: str | None) -> None:
        super().__init__(folder)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._url, self._http = url, httpx.AsyncClient(transport=transport, base_url=url, headers=headers)

    async def carry(self, folder: Path, timeout_s: float) -> str:
        """Send it; InvalidInput where the bytes that came are not those that were sent."""
        place = ""
        for file, checksum, size in await asyncio.to_thread(_files, folder):
            place = await self._send(file, checksum, size, timeout_s)
        return place

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, file: Path, checksum: str, size: int, timeout_s: float) -> str:
        headers = {"X-Checksum": checksum, "Content-Length": str(size)}
        path = f"/v1/folders/{file.parent.name}/{file.name}"
        try:
            answer = await self._http.put(path, content=_chunks(file), headers=headers, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise Unavailable(f"the mirror at {self._url} cannot be reached: {error or type(error).__name__}") from None
        if answer.status_code != httpx.codes.OK:
            raise _fault(answer)
        return answer.json()["folder"]


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as read:
        while data := await asyncio.to_thread(read.read, CHUNK):
            yield data


def _files(folder: Path) -> list[tuple[Path, str, int]]:
    """Each file with its sha256 and its size."""
    return [(file, _checksum(file), file.stat().st_size) for file in sorted(folder.iterdir())]


def _checksum(file: Path) -> str:
    with file.open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def _fault(answer: httpx.Response) -> Exception:
    if answer.headers.get("content-type") == "application/problem+json":
        return from_problem(answer.json(), answer.status_code)
    return Unavailable(f"the mirror answered {answer.status_code}: {answer.text[:200]}")
