"""The overview of a run, read once for all who watch it, however many they are.

A snapshot is read when somebody asks and the last one is older than its pace: a second, or longer where reading takes
long, so that all viewers together take a small share of the database's time. A panel is rendered once a snapshot.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Request

from shared.errors import Overloaded, TandemError
from sync_service.dashboard import panels
from sync_service.dashboard.pages import render
from sync_service.service import Service

PACE_S = 1.0
SHARE = 0.05
"""Of one connection's time, that the snapshots of a run take at most."""
SLOWEST_S = 15.0
"""The longest pace: one slow read must not keep an old picture for minutes, on a page that says it is live."""
KEPT = 64
"""Runs whose last snapshot is kept."""
ALIVE_S = 5.0
"""A stream says so often that it lives, which the page measures its age by."""
STREAM_S = 600.0
"""How long a stream lasts: the browser comes back, and its session is looked at again."""
STREAMS_PER_KEY = 256
LINES = re.compile(r"\r\n|\r|\n")


@dataclass
class Snapshot:
    """The panels of a run as they were `at` a time; each is rendered when it is first asked for."""

    run: str
    at: str
    panels: dict[str, panels.Panel]
    _rendered: dict[tuple[str, bool], str] = field(default_factory=dict)

    def html(self, panel: str, acts: bool) -> str:
        """A panel, with what an operator does in it or without."""
        known = self._rendered.get((panel, acts))
        if known is None:
            known = render(f"panels/{panel}.html", run=self.run, at=self.at, acts=acts, **self.panels[panel])
            self._rendered[panel, acts] = known
        return known


@dataclass
class _Watched:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    snapshot: Snapshot | None = None
    fresh_until: float = 0.0


class Live:
    """The snapshots of this process, and how many streams each key has open."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._runs: dict[str, _Watched] = {}
        self._open: Counter[str | None] = Counter()

    async def snapshot(self, run: str) -> Snapshot:
        """The run, as of a moment ago. NotFound; Unavailable where the database is away."""
        clock = asyncio.get_running_loop().time
        watched = self._runs.setdefault(run, _Watched())
        async with watched.lock:
            if watched.snapshot is None or clock() >= watched.fresh_until:
                began = clock()
                try:
                    # A viewer who goes is cancelled, but not the read, which could lose its connection to nobody.
                    watched.snapshot = await asyncio.shield(asyncio.ensure_future(self._read(run)))
                except TandemError:
                    self._runs.pop(run, None)
                    raise
                watched.fresh_until = clock() + min(max(PACE_S, (clock() - began) / SHARE), SLOWEST_S)
            self._keep(run)
            return watched.snapshot

    async def _read(self, run: str) -> Snapshot:
        await self._service.feed.number()  # what has happened, and nobody has asked for yet
        read = await self._service.database.read(lambda connection: panels.read(connection, self._service, run))
        return Snapshot(run, datetime.now(UTC).isoformat(), read)

    def forget(self, run: str) -> None:
        """Read the run anew for who asks next: somebody has just changed it here, and looks."""
        self._runs.pop(run, None)

    def _keep(self, run: str) -> None:
        """Keep the runs that were asked for last."""
        self._runs[run] = self._runs.pop(run, _Watched())
        for name in list(self._runs)[:-KEPT]:
            del self._runs[name]

    def take_seat(self, key: str | None) -> None:
        """One more stream under this key; Overloaded where it has as many as it may. `leave` gives the seat back."""
        if self._open[key] >= STREAMS_PER_KEY:
            raise Overloaded(f"this key has {STREAMS_PER_KEY} pages open, and may have no more")
        self._open[key] += 1
        self._service.metrics.streams.inc()

    def leave(self, key: str | None) -> None:
        """One stream less."""
        self._service.metrics.streams.dec()
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]

    async def frames(self, run: str, acts: bool, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Each panel when it has changed, at most once a second, and a sign of life; it ends with the service.

        The last one says `over` where the session has ended: the page goes to the login.
        """
        clock = asyncio.get_running_loop().time
        end, told, seen = clock() + STREAM_S, 0.0, {}
        bell = self._service.doorbell
        yield b"retry: 2000\n\n"
        with bell.listening(run) as waiter:
            while not bell.stopping and clock() < end and not is_over():
                waiter.clear()
                try:
                    snapshot = await self.snapshot(run)
                except TandemError:  # the database is away, or the run is purged: the page says how old it is
                    return
                changed = [name for name, panel in snapshot.panels.items() if seen.get(name) != panel]
                for name in changed:
                    yield frame(name, snapshot.html(name, acts))
                seen = snapshot.panels
                if changed or clock() - told >= ALIVE_S:
                    told = clock()
                    yield frame("alive", datetime.now(UTC).isoformat())
                await asyncio.sleep(PACE_S)
                await waiter.wait(ALIVE_S)
        if is_over():
            yield frame("over", "")


def frame(event: str, text: str) -> bytes:
    """A server-sent event; a line break in `text`, of whatever kind, begins no field of its own."""
    return "".join((f"event: {event}\n", *(f"data: {line}\n" for line in LINES.split(text)), "\n")).encode()


async def _live(request: Request) -> Live:  # async: a plain function would be run in a thread
    return request.app.state.live


Watching = Annotated[Live, Depends(_live)]
"""A route's parameter."""
