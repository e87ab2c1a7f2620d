"""The wire to a server: httpx's interface over aiohttp's connections.

httpcore's pool looks at every connection for every request, and costs a millisecond of CPU a call beside: with a
hundred delegations in flight that is more than the models take. aiohttp costs a tenth of it.
"""

import httpx
from httpx_aiohttp import AiohttpTransport

KEEP_ALIVE_S = 4.0
"""Less than uvicorn keeps an idle connection, so that no request meets one that is being closed."""


def wire() -> httpx.AsyncBaseTransport:
    """A transport with as many connections as there are requests in flight."""
    unlimited = 0
    return AiohttpTransport(limits=httpx.Limits(max_connections=unlimited, keepalive_expiry=KEEP_ALIVE_S))
