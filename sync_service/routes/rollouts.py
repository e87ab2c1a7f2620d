"""Rollouts: submit one or many, look one up."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import PLANNER, READER, within
from shared.ids import Id
from shared.schemas.rollout import Accepted, BatchResult, RolloutBatch, RolloutItem, RolloutReport
from shared.schemas.views import RolloutView
from sync_service import store
from sync_service.routes.answers import answer
from sync_service.routes.batches import Parsed, read_batch, results
from sync_service.service import Here

router = APIRouter(tags=["rollouts"])


@router.put(
    "/rollouts/{rollout}",
    dependencies=[PLANNER],
    response_model=Accepted,
    openapi_extra=openapi_body(RolloutReport),
)
async def submit(
    rollout: Id, request: Request, service: Here, body: Annotated[RolloutReport, Depends(json_body(RolloutReport))]
) -> Response:
    """Submit one; the same body again is answered as before."""
    outcome = await service.rollouts.submit(body.run, RolloutItem.model_construct(id=rollout, body=body))
    service.traffic.count(request, [body.run])
    return answer(outcome)


@router.post(
    "/rollouts:batch",
    dependencies=[PLANNER],
    response_model=BatchResult,
    openapi_extra=openapi_body(RolloutBatch),
)
async def submit_many(
    request: Request, service: Here, parsed: Annotated[Parsed, Depends(read_batch(RolloutBatch, RolloutItem))]
) -> Response:
    """Submit up to 512; each has a status of its own."""
    items = [part for part in parsed if isinstance(part, RolloutItem)]
    outcomes = await service.submit_rollouts(items) if items else []
    service.traffic.count(request, [item.body.run for item in items])
    return results(parsed, outcomes)


@router.get("/rollouts/{rollout}", dependencies=[READER], response_model=RolloutView)
async def get(rollout: Id, request: Request, service: Here) -> Response:
    """One, as recorded."""
    view = await service.database.read(lambda connection: store.rollouts.view(connection, rollout))
    within(request, view.run)
    return answer(view)
