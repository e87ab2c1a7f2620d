"""Runs: declare, list, watch, steer."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import OPERATOR, READER, VIEWER, bound_run
from shared.ids import Name
from shared.schemas.base import MAX_INTEGER, Page, Reason
from shared.schemas.run import RunSpec, RunStatus, RunView
from shared.schemas.stream import StepStatistics
from sync_service import store
from sync_service.operations import runs, status
from sync_service.routes.answers import PAGE, Cursor, Limit, answer, decode, page
from sync_service.service import Actor, Here, Service

router = APIRouter(tags=["runs"])

Wait = Annotated[float, Query(ge=0, le=60, allow_inf_nan=False)]
StepQuery = Annotated[int, Query(ge=0, le=MAX_INTEGER)]


@router.put("/runs/{run}", dependencies=[OPERATOR], response_model=RunView, openapi_extra=openapi_body(RunSpec))
async def declare(
    run: Name, by: Actor, service: Here, spec: Annotated[RunSpec, Depends(json_body(RunSpec))]
) -> Response:
    """Declare a run; the same spec again is fine."""
    declared = await service.write(run, lambda connection: runs.declare(connection, run, spec, by))
    return answer(declared.view())


@router.get("/runs", dependencies=[VIEWER], response_model=Page[RunView])
async def list_runs(request: Request, service: Here, cursor: Cursor = None, limit: Limit = PAGE) -> Response:
    """Every run that the key may read, by name."""
    (after,) = decode(cursor, ("",))
    found = await service.database.read(
        lambda connection: store.runs.page(connection, bound_run(request), after, limit),
    )
    return page([run.view() for run in found], limit, lambda view: (view.run,))


@router.get("/runs/{run}", dependencies=[READER], response_model=RunView)
async def get(run: Name, service: Here) -> Response:
    """One run's spec and state."""
    found = await service.database.read(lambda connection: store.runs.find(connection, run))
    return answer(found.view())


@router.get("/runs/{run}/status", dependencies=[READER], response_model=RunStatus)
async def run_status(
    run: Name,
    service: Here,
    wait: Wait = 0.0,
    open_step: Annotated[int | None, Query(ge=1)] = None,
    counts: bool = True,
) -> Response:
    """Where the run stands. With `open_step`, held until it may be opened or never will be, or `wait` is over.

    `counts=false` leaves the counts out, which on a long run take a second.
    """
    if open_step is not None:
        await service.hold(
            run,
            lambda: service.database.read(lambda connection: status.may_open(connection, run, open_step)),
            wait,
        )
    return answer(
        await service.database.read(
            lambda connection: status.status(
                connection, run, service.config.stall_s, service.traffic.unflushed(run), counted=counts
            ),
        )
    )


@router.get("/runs/{run}/steps", dependencies=[READER], response_model=Page[StepStatistics])
async def steps(run: Name, service: Here, after: StepQuery = 0, cursor: Cursor = None, limit: Limit = PAGE) -> Response:
    """The statistics of acked steps above `after`, both roles, in order."""
    place = decode(cursor, (after, "~"))  # after every role of that step
    await service.database.read(lambda connection: store.runs.find(connection, run))
    found = await service.database.read(
        lambda connection: store.deliveries.statistics(connection, run, place, limit),
    )
    return page(found, limit, lambda item: (item.step, item.role))


async def _move(service: Service, run: str, by: str | None, target: str, reason: str | None = None) -> Response:
    moved = await service.write(run, lambda connection: runs.move(connection, run, target, by, reason))
    return answer(moved.view())


@router.post("/runs/{run}:pause", dependencies=[OPERATOR], response_model=RunView)
async def pause(run: Name, by: Actor, service: Here) -> Response:
    """Open nothing; deadlines stand still."""
    return await _move(service, run, by, "paused")


@router.post("/runs/{run}:resume", dependencies=[OPERATOR], response_model=RunView)
async def resume(run: Name, by: Actor, service: Here) -> Response:
    """End a pause."""
    return await _move(service, run, by, "running")


@router.post("/runs/{run}:drain", dependencies=[OPERATOR], response_model=RunView)
async def drain(run: Name, by: Actor, service: Here) -> Response:
    """Open nothing more; finish when all that was cut is acked."""
    return await _move(service, run, by, "draining")


@router.post("/runs/{run}:fail", dependencies=[OPERATOR], response_model=RunView)
async def fail(run: Name, by: Actor, service: Here, reason: Annotated[Reason, Query()] = "by-operator") -> Response:
    """End the run as failed, for a reason code."""
    return await _move(service, run, by, "failed", reason)


@router.post("/runs/{run}:purge", dependencies=[OPERATOR], response_model=RunView)
async def purge(run: Name, by: Actor, service: Here) -> Response:
    """Delete a run that is finished or failed, in the background; then there is no such run."""
    return await _move(service, run, by, "purging")
