"""One call: sent until it is answered, not sooner again than the server asks, and never beyond its deadline."""

import asyncio

import httpx
import stamina
from pydantic import BaseModel

from shared.client.exchange import Exchange
from shared.client.retry import TryAgain, pause_s, raise_for
from shared.errors import DeadlineExceeded

FIRST_PAUSE_S, JITTER_S, LONGEST_PAUSE_S = 0.05, 0.5, 5.0
"""The client's own backoff, where the server does not say when to come back."""


class Wire:
    """The calls of one service.

    `timeout_s` bounds one attempt, `retry_for_s` the whole call; both are longer by what the server may hold the call.
    """

    def __init__(
        self, base_url: str, key: str | None, transport: httpx.AsyncBaseTransport, timeout_s: float, retry_for_s: float
    ) -> None:
        self._exchange = Exchange(transport, base_url, key, "the sync service")
        self._timeout_s = timeout_s
        self._retry_for_s = retry_for_s

    async def close(self) -> None:
        """Close the connections."""
        await self._exchange.close()

    async def send(self, method: str, path: str, body: BaseModel | None, hold_s: float = 0.0) -> httpx.Response:
        """The answer, read; `hold_s` is how long the server may hold the call.

        DeadlineExceeded: no answer in time, and the last fault. Else the error that the server answered.
        """
        total_s = self._retry_for_s + hold_s
        deadline = asyncio.get_running_loop().time() + total_s
        last: Exception | None = None

        def again(fault: Exception) -> bool | float:
            nonlocal last
            if not isinstance(fault, TryAgain):
                return False
            last, pause = fault.error, pause_s(fault)
            if pause is None:
                return True
            return pause if asyncio.get_running_loop().time() + pause < deadline else False

        attempts = stamina.retry_context(
            on=again,
            timeout=None,
            attempts=None,
            wait_initial=FIRST_PAUSE_S,
            wait_jitter=JITTER_S,
            wait_max=LONGEST_PAUSE_S,
        )
        try:
            async with asyncio.timeout_at(deadline):
                async for attempt in attempts:
                    with attempt:
                        return await self._attempt(method, path, body, self._timeout_s + hold_s)
        except (TimeoutError, TryAgain):
            pass
        fault = getattr(last, "detail", None) or repr(last) if last else "no answer"
        raise DeadlineExceeded(f"{self._exchange.name} has not done it within {total_s:g} s: {fault}")

    async def _attempt(self, method: str, path: str, body: BaseModel | None, timeout_s: float) -> httpx.Response:
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._exchange(method, path, body)
        except (httpx.TransportError, TimeoutError) as error:
            raise TryAgain(error) from error
        raise_for(response)
        return response
