"""A thin HTTP client that counts the bytes of bodies: what is measured is the service, not its client."""

import json
from types import TracebackType

import aiohttp


class Wire:
    """One connection pool with a key; any answer but a success is an error."""

    def __init__(self, url: str, key: str | None, connections: int) -> None:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._session = aiohttp.ClientSession(
            url,
            headers=headers,
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=3),
            timeout=aiohttp.ClientTimeout(120),
        )
        self.sent = 0
        self.received = 0

    async def __aenter__(self) -> "Wire":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None):
        await self._session.close()

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        """The body of the answer."""
        self.sent += len(body)
        async with self._session.request(method, path, data=body) as response:
            answer = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"{method} {path}: {response.status} {answer[:500]!r}")
        self.received += len(answer)
        return answer

    async def call(self, method: str, path: str, body: object) -> dict:
        """The same with JSON on both sides; an empty answer is {}."""
        return json.loads(await self.send(method, path, json.dumps(body).encode()) or b"{}")
