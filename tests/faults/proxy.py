"""A TCP proxy that does to its connections what a bad network does.

latency      every chunk waits
reset        open connections are aborted (RST), now
half-open    nothing passes any more, and nobody is told
cut after n  a connection is aborted when n bytes of answers have passed
swallow      the answer to the next request that holds a pattern is dropped, and its connection aborted: the other
             side has done what was asked, and nobody here knows
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass

CHUNK = 65536


@dataclass
class Weather:
    """What happens to chunks from now on; of `cut_after`, to connections that are made from now on."""

    latency_s: float = 0.0
    half_open: bool = False
    cut_after: int | None = None
    swallow: bytes | None = None


class Proxy:
    """Listens on `port` of the loopback; passes on to `upstream_port`, which may change."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.weather = Weather()
        self.swallowed = self.dropped = 0
        self.port = 0
        self._links: set[_Link] = set()

    async def serve(self, port: int = 0) -> asyncio.Server:
        """Listen; the caller closes the server."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def reset(self) -> None:
        """Abort every connection."""
        for link in list(self._links):
            link.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        except OSError:
            _abort(writer)
            return
        link = _Link(self, (reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            link.abort()


@contextlib.asynccontextmanager
async def proxied(upstream_port: int) -> AsyncGenerator[Proxy]:
    """A proxy for the time of a test."""
    proxy = Proxy(upstream_port)
    server = await proxy.serve()
    try:
        yield proxy
    finally:
        server.close()
        proxy.reset()


class _Link:
    """One connection and its upstream."""

    def __init__(self, proxy: Proxy, client: tuple, upstream: tuple) -> None:
        self._proxy = proxy
        self._client, self._upstream = client, upstream
        self._answered = 0
        self._cut_after = proxy.weather.cut_after
        self._swallowing = False

    async def run(self) -> None:
        """Until either side ends, or the weather ends it."""
        ways = [asyncio.create_task(self._requests()), asyncio.create_task(self._answers())]
        _, pending = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in pending:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    def abort(self) -> None:
        _abort(self._client[1])
        _abort(self._upstream[1])

    async def _requests(self) -> None:
        while chunk := await self._client[0].read(CHUNK):
            pattern = self._proxy.weather.swallow
            if pattern is not None and pattern in chunk:
                self._proxy.weather.swallow = None
                self._swallowing = True
            await self._pass(chunk, self._upstream[1])

    async def _answers(self) -> None:
        while chunk := await self._upstream[0].read(CHUNK):
            self._answered += len(chunk)
            if self._swallowing:
                self._proxy.swallowed += 1
                return
            if self._cut_after is not None and self._answered > self._cut_after:
                return
            await self._pass(chunk, self._client[1])

    async def _pass(self, chunk: bytes, writer: asyncio.StreamWriter) -> None:
        if self._proxy.weather.latency_s:
            await asyncio.sleep(self._proxy.weather.latency_s)
        if self._proxy.weather.half_open:
            self._proxy.dropped += 1
            return
        writer.write(chunk)
        await writer.drain()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST rather than FIN."""
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
