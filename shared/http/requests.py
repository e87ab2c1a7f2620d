"""Request ids: the caller's `X-Request-Id` if it is a sane one, else a fresh one; in the answer and in log lines."""

import re

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.ids import new_id

HEADER = b"x-request-id"
SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}")

log = structlog.get_logger()


class RequestIds:
    """The middleware. `request.state.request_id` is for those who answer outside it, as the handler of faults does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name the request; log it where the answer is a fault of the server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        id = given.decode() if SANE.fullmatch(given) else new_id()
        scope.setdefault("state", {})["request_id"] = id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (HEADER, id.encode())]
                if message["status"] >= 500:
                    log.warning("answered", method=scope["method"], path=scope["path"], status=message["status"])
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=id):
            await self._app(scope, receive, named)


def install_requests(app: FastAPI) -> None:
    """Put it before everything else of `app`: call it after the other middlewares are added."""
    app.add_middleware(RequestIds)
