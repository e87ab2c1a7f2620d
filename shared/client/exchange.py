"""One request to a server of ours and its answer: with the key, and in the version of the protocol that it speaks."""

import httpx
from pydantic import BaseModel

from shared.schemas import protocol


class Exchange:
    """It speaks to the transport itself: a client's cookies, redirects and authentication cost as much as the call.

    `name` is the server's, for people. Nothing here is bounded in time: the caller has a deadline.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, base_url: str, key: str | None, name: str) -> None:
        self.base_url = base_url.rstrip("/")
        self.name = f"{name} at {self.base_url}"
        self._transport = transport
        self._peer = protocol.Peer(self.name)
        self._headers = {protocol.HEADER: str(protocol.PROTOCOL)}
        if key:
            self._headers["authorization"] = f"Bearer {key}"

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __call__(self, method: str, path: str, body: BaseModel | None) -> httpx.Response:
        """The answer, read, whatever it says. Raises httpx.TransportError, and ProtocolMismatch at too old a server."""
        if body is None:
            return await self._send(method, path, None)
        if self._peer.must_be_asked(body):
            await self._send("GET", "/healthz", None)
        return await self._send(method, path, self._peer.encode(body))

    async def _send(self, method: str, path: str, content: bytes | None) -> httpx.Response:
        headers = self._headers if content is None else self._headers | {"content-type": "application/json"}
        request = httpx.Request(method, f"{self.base_url}{path}", headers=headers, content=content)
        response = await self._transport.handle_async_request(request)
        try:
            await response.aread()
        finally:
            await response.aclose()
        self._peer.heard(response.headers.get(protocol.HEADER))
        return response
