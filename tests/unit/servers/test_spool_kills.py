"""A process is killed between the write, the sending and the acknowledgement of its reports: none is lost."""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("spool_child.py")
ROOT = Path(__file__).parents[3]
COUNT = 5


class Service:
    """The batch call over a real socket; while it is `deaf` it reads a request and never answers."""

    def __init__(self) -> None:
        self.deaf = True
        self.url = ""
        self.arrived: list[list[str]] = []
        self.heard = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["Service"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        ids = [item["id"] for item in json.loads(await reader.readexactly(length))["items"]]
        self.arrived.append(ids)
        self.heard.set()
        if not self.deaf:
            items = [{"id": id, "status": 200, "accepted": True} for id in ids]
            body = json.dumps({"items": items}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            writer.close()


@pytest.fixture
async def service() -> AsyncGenerator[Service]:
    async with Service().listening() as listening:
        yield listening


class Child:
    """One process of the submitter."""

    def __init__(self, store: Path, url: str, count: int = 0, where: str = "done") -> None:
        self._command = (sys.executable, str(CHILD), str(store), url, str(count), where)

    async def __aenter__(self) -> "Child":
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self._command, stdout=pipe, env=environment)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def lines(self, count: int) -> list[str]:
        """The next lines that it prints."""
        assert self.process.stdout is not None
        return [(await self.process.stdout.readline()).decode().strip() for _ in range(count)]


def spooled(store: Path) -> list[str]:
    """What waits in the file, as the next process will find it."""
    with sqlite3.connect(store) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM spool ORDER BY seq")]


async def drained(store: Path, service: Service) -> None:
    """A new process sends what the last one left."""
    service.deaf = False
    service.arrived.clear()
    async with Child(store, service.url) as child:
        assert await child.lines(1) == ["done"]
    assert spooled(store) == []


async def test_killed_after_the_write(tmp_path: Path, service: Service):
    store = tmp_path / "t.sqlite"
    async with Child(store, "http://127.0.0.1:1", COUNT) as child:  # nobody is there to send to
        ids = await child.lines(COUNT)
    assert spooled(store) == ids
    await drained(store, service)
    assert service.arrived == [ids]


async def test_killed_while_the_request_is_on_its_way(tmp_path: Path, service: Service):
    store = tmp_path / "t.sqlite"
    async with Child(store, service.url, COUNT) as child:
        ids = await child.lines(COUNT)
        await service.heard.wait()
    assert service.arrived == [ids]
    await drained(store, service)
    assert service.arrived == [ids]


async def test_killed_before_the_acknowledgement_is_written(tmp_path: Path, service: Service):
    store, service.deaf = tmp_path / "t.sqlite", False
    async with Child(store, service.url, COUNT, "acknowledged") as child:
        ids = await child.lines(COUNT)
        assert await child.process.wait() == -9
    await drained(store, service)
    assert service.arrived == [ids]


async def test_a_torn_end_of_the_log_is_dropped(tmp_path: Path, service: Service):
    """A crash of the machine may leave half a record at the end of SQLite's log: what was committed before stays."""
    store = tmp_path / "t.sqlite"
    async with Child(store, "http://127.0.0.1:1", COUNT) as child:
        ids = await child.lines(COUNT)
    log = store.with_name("t.sqlite-wal")
    log.write_bytes(log.read_bytes()[:-100])
    left = spooled(store)
    assert left == ids[: COUNT - 1]
    await drained(store, service)
    assert service.arrived == [left]
