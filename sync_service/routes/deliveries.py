"""Deliveries: list, and what an operator does with a dead one."""

from fastapi import APIRouter, Request, Response

from shared.http.guard import OPERATOR, READER, bound_run, within
from shared.ids import Id, Name
from shared.schemas.base import Page
from shared.schemas.stream import DeliveryState
from shared.schemas.views import DeliveryRow
from sync_service import store
from sync_service.operations import streams
from sync_service.routes.answers import PAGE, Cursor, Limit, answer, decode, page
from sync_service.service import Actor, Here, Service

router = APIRouter(tags=["deliveries"])


@router.get("/runs/{run}/deliveries", dependencies=[READER], response_model=Page[DeliveryRow])
async def list_deliveries(
    run: Name, service: Here, state: DeliveryState | None = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """The run's deliveries in the order of step and role; of one state, if it is given."""
    place = decode(cursor, (0, ""))
    await service.database.read(lambda connection: store.runs.find(connection, run))
    found = await service.database.read(
        lambda connection: store.deliveries.page(connection, run, state, place, limit),
    )
    return page(found, limit, lambda row: (row.step, row.role))


@router.post("/deliveries/{delivery}:requeue", dependencies=[OPERATOR], response_model=DeliveryRow)
async def requeue(delivery: Id, request: Request, by: Actor, service: Here) -> Response:
    """Give a dead delivery all its attempts again."""
    await _reach(request, service, delivery)
    row = await service.database.transaction(lambda connection: streams.requeue(connection, delivery, by))
    service.doorbell.ring([row.run])
    return answer(row)


@router.post("/deliveries/{delivery}:skip", dependencies=[OPERATOR], response_model=DeliveryRow)
async def skip(delivery: Id, request: Request, by: Actor, service: Here) -> Response:
    """Give a dead delivery up: the stream goes on after it."""
    await _reach(request, service, delivery)
    row = await service.database.transaction(lambda connection: streams.skip(connection, delivery, by))
    service.doorbell.ring([row.run])
    return answer(row)


async def _reach(request: Request, service: Service, delivery: str) -> None:
    """Forbidden where the delivery is of another run than the one that the acting key is bound to."""
    if bound_run(request) is not None:
        found = await service.database.read(lambda connection: store.deliveries.find_view(connection, delivery))
        within(request, found.run)
