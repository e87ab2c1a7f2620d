"""Groups: open, list, look up, discard."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import OPERATOR, PLANNER, READER, bound_run, within
from shared.ids import Id, Name
from shared.schemas.base import MAX_INTEGER, Page
from shared.schemas.rollout import GroupBatch, GroupBatchResult, GroupItem, GroupOpen, GroupState, GroupView
from shared.schemas.views import RolloutView, TrajectoryRecord
from sync_service import store
from sync_service.operations import groups
from sync_service.routes.answers import PAGE, Cursor, Limit, answer, decode, page
from sync_service.routes.batches import Parsed, read_batch, results
from sync_service.service import Actor, Here, Service

router = APIRouter(tags=["groups"])

OneStep = Annotated[int | None, Query(ge=1, le=MAX_INTEGER)]


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
    run: Name,
    service: Here,
    state: GroupState | None = None,
    step: OneStep = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response:
    """The run's groups in the order of step and index; of one state or of one step, if it is given."""
    place = decode(cursor, (step or 0, -1))
    await service.database.read(lambda connection: store.runs.find(connection, run))
    found = await service.database.read(
        lambda connection: store.groups.page(connection, run, state, place, limit, step or MAX_INTEGER),
    )
    return page(found, limit, lambda view: (view.step, view.index))


@router.get("/groups/{group}", dependencies=[READER], response_model=GroupView)
async def get(group: Id, request: Request, service: Here) -> Response:
    """One group."""
    view = await service.database.read(lambda connection: store.groups.find(connection, group))
    within(request, view.run)
    return answer(view)


@router.get("/groups/{group}/rollouts", dependencies=[READER], response_model=Page[RolloutView])
async def list_rollouts(
    group: Id, request: Request, service: Here, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """The group's rollouts in the order of slot and id, late ones too."""
    await _reach(request, service, group)
    place = decode(cursor, (-1, ""))
    found = await service.database.read(
        lambda connection: store.rollouts.of_group(connection, group, place, limit),
    )
    return page(found, limit, lambda view: (view.slot, view.id))


@router.get("/groups/{group}/trajectories", dependencies=[READER], response_model=Page[TrajectoryRecord])
async def list_trajectories(
    group: Id, request: Request, service: Here, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """The executor's trajectories of the group's rollouts in the order of their ids, those nobody trains on too."""
    await _reach(request, service, group)
    (after,) = decode(cursor, ("",))
    found = await service.database.read(
        lambda connection: store.trajectories.of_group(connection, group, after, limit),
    )
    return page(found, limit, lambda view: (view.id,))


@router.post("/groups/{group}:discard", dependencies=[OPERATOR], response_model=GroupView)
async def discard(group: Id, request: Request, by: Actor, service: Here) -> Response:
    """Give an open group up: nothing of it is trained on."""
    if bound_run(request) is not None:
        await _reach(request, service, group)
    view = await service.database.transaction(lambda connection: groups.discard(connection, group, by))
    service.doorbell.ring([view.run])
    return answer(view)


async def _reach(request: Request, service: Service, group: str) -> None:
    """NotFound where there is no such group, Forbidden where the acting key is bound to another run."""
    found = await service.database.read(lambda connection: store.groups.find(connection, group))
    within(request, found.run)
