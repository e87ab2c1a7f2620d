"""Trajectories: submit one or many, look one up."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import EXECUTOR, READER, within
from shared.ids import Id
from shared.schemas.rollout import Accepted, BatchResult, TrajectoryBatch, TrajectoryItem, TrajectoryReport
from shared.schemas.views import TrajectoryRecord
from sync_service import store
from sync_service.routes.answers import answer
from sync_service.routes.batches import Parsed, read_batch, results
from sync_service.service import Here

router = APIRouter(tags=["trajectories"])


@router.put(
    "/trajectories/{trajectory}",
    dependencies=[EXECUTOR],
    response_model=Accepted,
    openapi_extra=openapi_body(TrajectoryReport),
)
async def submit(
    trajectory: Id,
    request: Request,
    service: Here,
    body: Annotated[TrajectoryReport, Depends(json_body(TrajectoryReport))],
) -> Response:
    """Submit one; the same body again is answered as before."""
    outcome = await service.trajectories.submit(body.run, TrajectoryItem.model_construct(id=trajectory, body=body))
    service.traffic.count(request, [body.run])
    return answer(outcome)


@router.post(
    "/trajectories:batch",
    dependencies=[EXECUTOR],
    response_model=BatchResult,
    openapi_extra=openapi_body(TrajectoryBatch),
)
async def submit_many(
    request: Request, service: Here, parsed: Annotated[Parsed, Depends(read_batch(TrajectoryBatch, TrajectoryItem))]
) -> Response:
    """Submit up to 512; each has a status of its own."""
    items = [part for part in parsed if isinstance(part, TrajectoryItem)]
    outcomes = await service.submit_trajectories(items) if items else []
    service.traffic.count(request, [item.body.run for item in items])
    return results(parsed, outcomes)


@router.get("/trajectories/{trajectory}", dependencies=[READER], response_model=TrajectoryRecord)
async def get(trajectory: Id, request: Request, service: Here) -> Response:
    """One, as recorded."""
    view = await service.database.read(lambda connection: store.trajectories.view(connection, trajectory))
    within(request, view.run)
    return answer(view)
