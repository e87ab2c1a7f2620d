"""Many HTTP calls in flight at once, at a cost that does not grow with their number.

httpcore's pool looks at every open connection for every request: with 100 calls in flight that costs milliseconds a
call. Here each call in flight has a connection of its own, and takes the one that was free last.
"""

from collections.abc import AsyncIterator

import httpx


class Lanes(httpx.AsyncBaseTransport):
    """A transport of single connections; each is reused once its answer has been read."""

    def __init__(self) -> None:
        self._tls = httpx.create_ssl_context()
        self._free: list[httpx.AsyncHTTPTransport] = []
        self._all: list[httpx.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` on a free connection, or on a new one."""
        lane = self._free.pop() if self._free else self._open()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            self._free.append(lane)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Returning(response.stream, self._free, lane)
        return response

    def _open(self) -> httpx.AsyncHTTPTransport:
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        lane = httpx.AsyncHTTPTransport(verify=self._tls, limits=one)
        self._all.append(lane)
        return lane

    async def aclose(self) -> None:
        """Close every connection."""
        for lane in self._all:
            await lane.aclose()


class _Returning(httpx.AsyncByteStream):
    """A response's body that gives its lane back when it is closed."""

    def __init__(
        self, body: httpx.AsyncByteStream, free: list[httpx.AsyncHTTPTransport], lane: httpx.AsyncHTTPTransport
    ) -> None:
        self._body, self._free, self._lane = body, free, lane

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()
        self._free.append(self._lane)
