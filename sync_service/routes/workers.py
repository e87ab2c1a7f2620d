"""Workers: heartbeat, list."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import READER, TRAINER
from shared.ids import Name
from shared.schemas.base import Page
from shared.schemas.stream import Heartbeat
from shared.schemas.views import WorkerRow
from sync_service import store
from sync_service.routes.answers import PAGE, Cursor, Limit, decode, done, page
from sync_service.service import Here

router = APIRouter(prefix="/runs/{run}/workers", tags=["workers"])


@router.put("/{worker}", dependencies=[TRAINER], status_code=204, openapi_extra=openapi_body(Heartbeat))
async def heartbeat(
    run: Name, worker: Name, service: Here, body: Annotated[Heartbeat, Depends(json_body(Heartbeat))]
) -> Response:
    """A worker is alive, and says what it does."""

    async def beat(connection):
        await store.runs.find(connection, run)
        await store.workers.beat(connection, run, worker, body)

    await service.urgent.transaction(beat)
    return done()


@router.get("", dependencies=[READER], response_model=Page[WorkerRow])
async def list_workers(run: Name, service: Here, cursor: Cursor = None, limit: Limit = PAGE) -> Response:
    """The run's workers by name, each with its last heartbeat."""
    (after,) = decode(cursor, ("",))
    await service.database.read(lambda connection: store.runs.find(connection, run))
    found = await service.database.read(
        lambda connection: store.workers.page(connection, run, after, limit, service.config.worker_lost_s)
    )
    return page(found, limit, lambda row: (row.worker,))
