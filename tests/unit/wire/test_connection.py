"""The head of a request is bounded in bytes and in time, whoever sends it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import nullcontext

import pytest
import uvicorn
from fastapi import FastAPI

from shared.http import connection
from tests.waiting import until

WAIT_S = 60


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    """Of an empty app behind the protocol."""
    config = uvicorn.Config(FastAPI(), port=0, http=connection.Connection, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # ty: ignore[invalid-assignment]
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


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
