"""A role's stream: resume, lease, renew, ack, release."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from shared.http.body import json_body, openapi_body
from shared.http.guard import TRAINER
from shared.ids import Name
from shared.schemas import Role
from shared.schemas.stream import (
    Ack,
    LeaseAnswer,
    LeaseRequest,
    ReleaseRequest,
    Renewed,
    Resumed,
    ResumeRequest,
    StreamClaim,
)
from sync_service import store
from sync_service.operations import resume as resuming
from sync_service.operations import streams
from sync_service.routes.answers import answer, done
from sync_service.service import Here

router = APIRouter(prefix="/runs/{run}/streams", tags=["streams"], dependencies=[TRAINER])


@router.post("/{role}:resume", response_model=Resumed, openapi_extra=openapi_body(ResumeRequest))
async def resume(
    run: Name, role: Role, service: Here, body: Annotated[ResumeRequest, Depends(json_body(ResumeRequest))]
) -> Response:
    """Take the stream from a checkpoint's step, under a new epoch."""
    return answer(await service.write(run, lambda connection: resuming.resume(connection, run, role, body)))


@router.post("/{role}:lease", response_model=LeaseAnswer, openapi_extra=openapi_body(LeaseRequest))
async def lease(
    run: Name, role: Role, service: Here, body: Annotated[LeaseRequest, Depends(json_body(LeaseRequest))]
) -> Response:
    """The next delivery, waited for up to `wait_s`; the lease is prolonged when the call comes, and with the answer."""
    prolong = True

    async def look() -> LeaseAnswer | None:
        nonlocal prolong
        found = await service.database.transaction(
            lambda connection: streams.lease(connection, run, role, body, prolong=prolong),
        )
        prolong = False
        return found

    found = await service.hold(run, look, body.wait_s)
    if found is None:
        spec = (await service.database.read(lambda connection: store.runs.find(connection, run))).spec
        found = LeaseAnswer(ttl_s=spec.lease_ttl_s)
    return answer(found)


@router.post("/{role}:renew", response_model=Renewed, openapi_extra=openapi_body(StreamClaim))
async def renew(
    run: Name, role: Role, service: Here, body: Annotated[StreamClaim, Depends(json_body(StreamClaim))]
) -> Response:
    """Keep the lease alive."""
    return answer(await service.urgent.transaction(lambda connection: streams.renew(connection, run, role, body)))


@router.post("/{role}:ack", status_code=204, openapi_extra=openapi_body(Ack))
async def ack(run: Name, role: Role, service: Here, body: Annotated[Ack, Depends(json_body(Ack))]) -> Response:
    """The step is done."""
    await service.write(run, lambda connection: streams.ack(connection, run, role, body), urgent=True)
    return done()


@router.post("/{role}:release", status_code=204, openapi_extra=openapi_body(ReleaseRequest))
async def release(
    run: Name, role: Role, service: Here, body: Annotated[ReleaseRequest, Depends(json_body(ReleaseRequest))]
) -> Response:
    """Give the stream back; with an error the attempt counts."""
    await service.write(run, lambda connection: streams.release(connection, run, role, body), urgent=True)
    return done()
