"""The fault proxy does what it says: a fault that never happens would prove nothing."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.faults.proxy import Proxy, Weather, proxied


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    """A proxy before a server that answers each line with the same line."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with proxied(server.sockets[0].getsockname()[1]) as proxy:
        yield proxy
    server.close()


class Caller:
    """One connection through the proxy."""

    async def connect(self, proxy: Proxy) -> "Caller":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        return self

    async def say(self, line: bytes) -> bytes:
        self.writer.write(line)
        return await self.reader.readline()


async def test_what_passes_comes_back(proxy: Proxy) -> None:
    caller = await Caller().connect(proxy)
    assert await caller.say(b"hello\n") == b"hello\n"


async def test_a_reset_is_seen_by_the_caller(proxy: Proxy) -> None:
    caller = await Caller().connect(proxy)
    await caller.say(b"hello\n")
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        await caller.say(b"again\n")


async def test_half_open_nothing_comes_and_nobody_is_told(proxy: Proxy) -> None:
    caller = await Caller().connect(proxy)
    proxy.weather = Weather(half_open=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(caller.say(b"hello\n"), 0.1)


async def test_a_connection_is_cut_after_its_bytes(proxy: Proxy) -> None:
    proxy.weather = Weather(cut_after=6)
    caller = await Caller().connect(proxy)
    assert await caller.say(b"hello\n") == b"hello\n"
    with pytest.raises(ConnectionResetError):
        await caller.say(b"again\n")


async def test_an_answer_is_swallowed_once(proxy: Proxy) -> None:
    caller = await Caller().connect(proxy)
    proxy.weather = Weather(swallow=b"commit")
    assert await caller.say(b"begin\n") == b"begin\n"
    with pytest.raises(ConnectionResetError):
        await caller.say(b"commit\n")
    assert proxy.swallowed == 1
    again = await Caller().connect(proxy)
    assert await again.say(b"commit\n") == b"commit\n"


async def test_nobody_upstream_is_a_reset(proxy: Proxy) -> None:
    proxy.upstream_port = 1
    with pytest.raises(ConnectionResetError):
        await (await Caller().connect(proxy)).say(b"hello\n")
