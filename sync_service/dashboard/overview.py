"""A run's first page, and the stream that keeps it up to date."""

from fastapi import APIRouter, Request, Response

from shared.ids import Name
from sync_service.dashboard.access import VIEW, is_over, may_act
from sync_service.dashboard.live import Watching
from sync_service.dashboard.pages import PageRoute, page
from sync_service.routes.sse import EventStream
from sync_service.service import Actor

router = APIRouter(route_class=PageRoute)


@router.get("/runs/{run}", dependencies=[VIEW])
async def overview(request: Request, run: Name, live: Watching) -> Response:
    """The panels as they are now."""
    return page(request, "overview.html", snapshot=await live.snapshot(run))


@router.get("/runs/{run}/live", dependencies=[VIEW])
async def stream(request: Request, run: Name, live: Watching, by: Actor) -> Response:
    """The panels as they change, as server-sent events named as the panels are; `alive` tells the time."""
    await live.snapshot(run)
    live.take_seat(by)
    frames = live.frames(run, may_act(request), lambda: is_over(request))
    return EventStream(frames, lambda: live.leave(by))
