"""What happened in a run, the newest first, with filters."""

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request, Response

from shared.errors import InvalidInput
from shared.ids import Name
from shared.schemas.base import ROLES
from shared.schemas.events import EventKind
from sync_service import store
from sync_service.dashboard.access import VIEW
from sync_service.dashboard.pages import PageRoute, page
from sync_service.service import Here

router = APIRouter(route_class=PageRoute)

SHOWN = 50
NEWEST = 2**63 - 1
KINDS: tuple[str, ...] = get_args(EventKind)

Word = Annotated[str, Query(max_length=100)]
Before = Annotated[int, Query(ge=1, le=NEWEST)]


@router.get("/runs/{run}/events", dependencies=[VIEW])
async def events(
    request: Request,
    run: Name,
    service: Here,
    kind: Word = "",
    role: Word = "",
    text: Word = "",
    before: Before = NEWEST,
) -> Response:
    """A page of them. `text`: a part of what an event says, such as a reason or an id; an empty filter fits all."""
    if kind not in ("", *KINDS) or role not in ("", *ROLES):
        raise InvalidInput("there is no such kind of event, or no such role")
    await service.feed.number()
    asked = {"kind": kind or None, "role": role or None, "part": text or None}

    async def read(connection):
        await store.runs.find(connection, run)
        return await store.overview.events(connection, run, before, SHOWN, **asked)

    rows, older = await service.database.read(read)
    filters = {"kind": kind, "role": role, "text": text}
    return page(
        request,
        "events.html",
        events=[{**row._mapping, "at": row.at.isoformat()} for row in rows],
        older=older,
        first=before == NEWEST,
        filters=filters,
        kinds=KINDS,
        roles=ROLES,
    )
