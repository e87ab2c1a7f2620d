"""Events: a page, held until there is one; or, for who accepts `text/event-stream`, a stream of them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from shared.errors import TandemError
from shared.http.guard import VIEWER, bound_run, revoked, within
from shared.ids import Name
from shared.schemas.events import Event, EventPage
from sync_service.doorbell import EVERY_RUN
from sync_service.routes.answers import PAGE, Limit, answer
from sync_service.routes.sse import KEEPALIVE, EventStream, frame
from sync_service.service import Actor, Here, Service

router = APIRouter(tags=["events"])

KEEPALIVE_S = 15.0
STREAM_S = 600.0
"""How long a stream lasts: its reader comes back with the last id, and its key is looked at again."""

After = Annotated[int, Query(ge=0, le=2**63 - 1)]
LastEventId = Annotated[str | None, Header(pattern=r"^[0-9]{1,18}$")]


@router.get("/events", dependencies=[VIEWER], response_model=EventPage)
async def list_events(
    request: Request,
    by: Actor,
    service: Here,
    after: After = 0,
    run: Name | None = None,
    wait: Annotated[float, Query(ge=0, le=60, allow_inf_nan=False)] = 0.0,
    limit: Limit = PAGE,
    last_event_id: LastEventId = None,
) -> Response:
    """Events above `after`, waited for up to `wait` seconds; or as a stream, from `Last-Event-ID` where it is sent."""
    if run is not None:
        within(request, run)
    of_run = run or bound_run(request)
    service.feed.take_seat(by)
    if "text/event-stream" in request.headers.get("accept", ""):
        service.metrics.streams.inc()
        return EventStream(_frames(request, service, int(last_event_id or after), of_run), lambda: _close(service, by))
    try:
        items = await _poll(service, after, of_run, wait, limit)
    finally:
        service.feed.leave(by)
    return answer(EventPage(items=tuple(items), after=items[-1].position if items else after))


def _close(service: Service, by: str | None) -> None:
    service.metrics.streams.dec()
    service.feed.leave(by)


async def _poll(service: Service, after: int, run: str | None, wait: float, limit: int) -> list[Event]:
    async def look() -> list[Event] | None:
        return await service.feed.after(after, run, limit) or None

    return await service.hold(run or EVERY_RUN, look, wait) or []


async def _frames(request: Request, service: Service, after: int, run: str | None) -> AsyncIterator[bytes]:
    """Frames of events as they come, and comments while none does; it ends with the service, and after STREAM_S."""
    clock = asyncio.get_running_loop().time
    end = clock() + STREAM_S
    heard = clock()
    with service.doorbell.listening(run or EVERY_RUN) as waiter:
        while not service.doorbell.stopping and clock() < end and not revoked(request):
            waiter.clear()
            try:
                events = await service.feed.after(after, run, PAGE)
            except TandemError:  # the database is away: the reader comes back, and misses nothing
                return
            if events:
                after, heard = events[-1].position, clock()
                yield b"".join(map(frame, events))
            elif clock() - heard >= KEEPALIVE_S:
                heard = clock()
                yield KEEPALIVE
            if len(events) < PAGE:
                await waiter.wait(KEEPALIVE_S)
