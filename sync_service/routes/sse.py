"""Server-sent events: one stream to one reader, that is bounded in time and never waits long for a slow reader."""

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from shared.schemas.events import Event

log = structlog.get_logger()

SEND_S = 20.0
"""How long a reader may take to take what is sent, before it is left."""


def frame(event: Event) -> bytes:
    """One event as the stream carries it; its position is the id, which a reader that comes back sends."""
    return f"id: {event.position}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n".encode()


KEEPALIVE = b": still here\n\n"


class EventStream(StreamingResponse):
    """Sends frames until they end, the reader goes, or it is too slow; `at_end` is called in each case.

    What is sent is at most what the socket takes: the next frames are read when the reader has taken the last ones.
    """

    def __init__(self, frames: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # no proxy keeps frames back
        super().__init__(frames, media_type="text/event-stream", headers=headers)
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream."""

        async def in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_S):
                await send(message)

        try:
            await super().__call__(scope, receive, in_time)
        except* TimeoutError:
            log.info("a reader of events was too slow")
        finally:
            self._at_end()
