"""The servers' side of the protocol's version: every answer names ours, and a client that is too old is told so."""

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import TandemError
from shared.http.problems import problem
from shared.schemas.protocol import HEADER, PROTOCOL, check_client

_NAME = HEADER.encode()


class Versioned:
    """The middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a client whose version does not fit; name ours in the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_NAME, str(PROTOCOL).encode())]
            await send(message)

        theirs = next((value.decode("latin-1") for name, value in scope["headers"] if name == _NAME), None)
        try:
            check_client(theirs)
        except TandemError as error:
            await problem(error)(scope, receive, named)
            return
        await self._app(scope, receive, named)


def install_protocol(app: FastAPI) -> None:
    """Put it before admission, metrics and the routes of `app`: call it after they are installed."""
    app.add_middleware(Versioned)
