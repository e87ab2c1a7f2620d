"""A connection whose requests' heads are bounded, in bytes and in time: both come before any key is looked at.

uvicorn's own parser would gather one endless header for as long as it comes, and wait for ever for the rest of another.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES = 64 * 1024
"""The most of a request line with its headers, of a chunk's extension, and of what follows the last chunk."""
HEAD_S = 30.0
"""How long a new connection may take to its first request, and a request's head to its end."""


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with these bounds."""

    _gathered = 0
    _late: asyncio.TimerHandle | None = None
    _unanswered: tuple[RequestResponseCycle, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing. Of requests that came together uvicorn itself tells the last one only, and starts all."""
        self._head_came()
        super().connection_lost(exc)
        self.pipeline.clear()
        for cycle in self._unanswered:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse; refuse where too much came without a head's end or a part of a body."""
        self._gathered += len(data)
        super().data_received(data)
        if self._gathered > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of a request has at most {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        if self._late is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """A head has come."""
        self._gathered = 0
        self._head_came()
        super().on_headers_complete()
        if self.cycle is not None:
            self._unanswered = (*(c for c in self._unanswered if not c.response_complete), self.cycle)

    def on_body(self, body: bytes) -> None:
        """A part of a body, which has bounds of its own."""
        self._gathered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has come."""
        self._gathered = 0
        super().on_message_complete()

    def _await_head(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self._give_up)

    def _head_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # the request before it is not answered yet
            self._await_head()
        else:
            self.transport.close()
