"""Admission control: so many requests in work, so many waiting for so long; the others are asked to come back later.

Requests are in lanes, and no lane can fill another: bulk writes stand in one, what must come in time (heartbeats,
renewals, acks) in another, what the server holds on purpose (long polls, event streams) in a third. Health and metrics
are always let in.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import FastAPI
from pydantic import Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.config import Config
from shared.errors import DeadlineExceeded, Overloaded
from shared.http.problems import problem

ALWAYS = frozenset({"/healthz", "/readyz", "/metrics"})
BODY_S = 30.0
"""How long a request's body may take to arrive: a slow sender must not keep its place."""

Count = Annotated[int, Field(ge=1, le=100_000)]


class AdmissionConfig(Config):
    """How many requests at once; beyond it a caller is answered 429 with `Retry-After`."""

    in_work: Count = 256
    waiting: Count = 1024
    wait_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    """How long a request may wait for its turn."""


class Lane:
    """At most `in_work` requests at once, and `waiting` more for up to `wait_s`."""

    def __init__(self, name: str, in_work: int, waiting: int = 0, wait_s: float = 0.0) -> None:
        self.name = name
        self.waiting = 0
        self.refused = 0
        self._places = asyncio.Semaphore(in_work)
        self._most_waiting = waiting
        self._wait_s = wait_s

    async def enter(self) -> None:
        """Take a place; Overloaded where there is none in time."""
        if not self._places.locked():
            await self._places.acquire()  # does not wait
            return
        if self.waiting >= self._most_waiting:
            self._refuse(f"{self.waiting} requests wait already")
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError:
            self._refuse(f"no place became free within {self._wait_s:g} s")
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        """Give the place back."""
        self._places.release()

    def _refuse(self, why: str) -> None:
        self.refused += 1
        raise Overloaded(f"too many requests at once (lane {self.name}): {why}")


class Admission:
    """The middleware; `lane_of` says in which lane a request stands, by its scope."""

    def __init__(self, app: ASGIApp, lane_of: Callable[[Scope], Lane]) -> None:
        self._app = app
        self._lane_of = lane_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through in its turn, or answer 429."""
        if scope["type"] != "http" or scope["path"] in ALWAYS:
            await self._app(scope, receive, send)
            return
        lane = self._lane_of(scope)
        try:
            await lane.enter()
        except Overloaded as error:
            await problem(error)(scope, receive, send)
            return
        try:
            await self._app(scope, _in_time(receive), send)
        finally:
            lane.leave()


def install_admission(app: FastAPI, lanes: Iterable[Lane], lane_of: Callable[[Scope], Lane]) -> None:
    """Put admission before every route of `app`; `app.state.lanes` is for its metrics."""
    app.state.lanes = tuple(lanes)
    app.add_middleware(Admission, lane_of=lane_of)


def one_lane(app: FastAPI, config: AdmissionConfig) -> None:
    """Admission for a server on which all requests are alike."""
    lane = Lane("all", config.in_work, config.waiting, config.wait_s)
    install_admission(app, [lane], lambda _: lane)


def _in_time(receive: Receive) -> Receive:
    """`receive`, but a body that does not come is DeadlineExceeded."""
    deadline: float | None = asyncio.get_running_loop().time() + BODY_S

    async def bounded() -> Message:
        nonlocal deadline
        if deadline is None:  # the body is here; what comes now is the end of the connection
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise DeadlineExceeded(f"the body did not arrive within {BODY_S:g} s") from None
        if not message.get("more_body"):
            deadline = None
        return message

    return bounded
