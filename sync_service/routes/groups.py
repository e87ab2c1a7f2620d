"""Groups: open, list, look up, discard."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import OPERATOR, PLANNER, READER, bound_run, within
from shared.ids import Id, Name
from shared.schemas.base import Page
from shared.schemas.rollout import GroupBatch, GroupBatchResult, GroupItem, GroupOpen, GroupState, GroupView
from sync_service import store
from sync_service.operations import groups
from sync_service.routes.answers import PAGE, Cursor, Limit, answer, decode, page
from sync_service.routes.batches import Parsed, read_batch, results
from sync_service.service import Actor, Here

router = APIRouter(tags=["groups"])


@router.put("/groups/{group}", dependencies=[PLANNER], response_model=GroupView, openapi_extra=openapi_body(GroupOpen))
async def open_group(
    group: Id, request: Request, service: Here, body: Annotated[GroupOpen, Depends(json_body(GroupOpen))]
) -> Response:
    """Open a group; `staleness-bound` where its step may not be opened yet."""
    view = await service.groups.submit(body.run, GroupItem.model_construct(id=group, body=body))
    service.traffic.count(request, [body.run])
    return answer(view)


@router.post(
    "/groups:batch",
    dependencies=[PLANNER],
    response_model=GroupBatchResult,
    openapi_extra=openapi_body(GroupBatch),
)
async def open_many(
    request: Request, service: Here, parsed: Annotated[Parsed, Depends(read_batch(GroupBatch, GroupItem))]
) -> Response:
    """Open up to 512; each has a status of its own."""
    items = [part for part in parsed if isinstance(part, GroupItem)]
    outcomes = await service.open_groups(items) if items else []
    service.traffic.count(request, [item.body.run for item in items])
    return results(parsed, outcomes)


@router.get("/runs/{run}/groups", dependencies=[READER], response_model=Page[GroupView])
async def list_groups(
    run: Name, service: Here, state: GroupState | None = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """The run's groups in the order of step and index; of one state, if it is given."""
    place = decode(cursor, (0, 0))
    await service.database.read(lambda connection: store.runs.find(connection, run))
    found = await service.database.read(
        lambda connection: store.groups.page(connection, run, state, place, limit),
    )
    return page(found, limit, lambda view: (view.step, view.index))


@router.get("/groups/{group}", dependencies=[READER], response_model=GroupView)
async def get(group: Id, request: Request, service: Here) -> Response:
    """One group."""
    view = await service.database.read(lambda connection: store.groups.find(connection, group))
    within(request, view.run)
    return answer(view)


@router.post("/groups/{group}:discard", dependencies=[OPERATOR], response_model=GroupView)
async def discard(group: Id, request: Request, by: Actor, service: Here) -> Response:
    """Give an open group up: nothing of it is trained on."""
    if bound_run(request) is not None:
        found = await service.database.read(lambda connection: store.groups.find(connection, group))
        within(request, found.run)
    view = await service.database.transaction(lambda connection: groups.discard(connection, group, by))
    service.doorbell.ring([view.run])
    return answer(view)
