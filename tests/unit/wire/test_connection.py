"""The head of a request is bounded in bytes and in time, whoever sends it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.http import connection
from tests.waiting import until

WAIT_S = 60


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[int]:
    """The port of `app` behind the protocol."""
    config = uvicorn.Config(app, port=0, http=connection.Connection, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # ty: ignore[invalid-assignment]
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    """Of an empty app."""
    async with serving(FastAPI()) as found:
        yield found


async def told(port: int, sent: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
    return answer


async def test_a_header_without_an_end_is_refused(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nX: "
    assert b" 400 " in await told(port, head.ljust(connection.HEAD_BYTES + 1, b"a"))


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET /none HTTP/1.1\r\nHost: x\r\n\r\nGET / HT"])
async def test_a_head_that_does_not_come_ends_the_connection(
    port: int, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.05)
    assert (b" 404 " in await told(port, begun)) == (b"none" in begun)


async def test_who_leaves_is_missed_also_by_the_first_of_requests_that_were_sent_at_once() -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        while (await receive())["type"] != "http.disconnect":
            pass
        seen.append("left")

    async with serving(app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % place for place in range(3)))
        await until(lambda: seen)
        writer.close()
        await until(lambda: "left" in seen)
    assert seen == ["/0", "left"]
