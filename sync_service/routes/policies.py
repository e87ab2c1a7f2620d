"""Policy versions: confirm, list."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import READER, TRAINER
from shared.ids import Name
from shared.schemas import Role
from shared.schemas.base import MAX_INTEGER, Page
from shared.schemas.stream import PolicyPublish
from shared.schemas.views import PolicyRow
from sync_service import store
from sync_service.operations import policies
from sync_service.routes.answers import PAGE, Cursor, Limit, decode, done, page
from sync_service.service import Here

router = APIRouter(prefix="/runs/{run}/policies", tags=["policies"])

Number = Annotated[int, Path(ge=0, le=MAX_INTEGER)]


@router.put(
    "/{role}/{epoch}.{step}", dependencies=[TRAINER], status_code=204, openapi_extra=openapi_body(PolicyPublish)
)
async def publish(
    run: Name,
    role: Role,
    epoch: Number,
    step: Number,
    service: Here,
    body: Annotated[PolicyPublish, Depends(json_body(PolicyPublish))],
) -> Response:
    """The role's samplers have loaded this version."""
    await service.write(run, lambda connection: policies.publish(connection, run, role, epoch, step, body), urgent=True)
    return done()


@router.get("", dependencies=[READER], response_model=Page[PolicyRow])
async def list_policies(run: Name, service: Here, cursor: Cursor = None, limit: Limit = PAGE) -> Response:
    """The run's versions in the order of epoch and step."""
    place = decode(cursor, (0, -1, ""))
    await service.database.read(lambda connection: store.runs.find(connection, run))
    found = await service.database.read(lambda connection: store.policies.page(connection, run, place, limit))
    return page(found, limit, lambda row: (row.epoch, row.step, row.role))
