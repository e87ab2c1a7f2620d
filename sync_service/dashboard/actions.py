"""What an operator does on a page: the same operations, and the same audit, as the calls of `/v1`."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter, ValidationError

from shared.errors import Forbidden, InvalidInput
from shared.ids import Id, Name
from shared.schemas.base import Reason
from sync_service import store
from sync_service.dashboard.access import ACT
from sync_service.dashboard.live import Live, Watching
from sync_service.dashboard.login import read_form
from sync_service.dashboard.pages import PageRoute, see_other
from sync_service.operations import groups, runs, streams
from sync_service.service import Actor, Here

router = APIRouter(route_class=PageRoute, prefix="/runs/{run}")

TARGETS = {"pause": "paused", "resume": "running", "drain": "draining", "fail": "failed"}
_REASON: TypeAdapter[str] = TypeAdapter(Reason)


@router.post("/{move}", dependencies=[ACT])
async def move(
    run: Name,
    move: Literal["pause", "resume", "drain", "fail"],
    request: Request,
    by: Actor,
    service: Here,
    live: Watching,
) -> Response:
    """Pause, resume, drain or fail the run."""
    reason = _reason(await read_form(request)) if move == "fail" else None
    await service.write(run, lambda connection: runs.move(connection, run, TARGETS[move], by, reason))
    return _done(live, run)


@router.post("/deliveries/{delivery}/{action}", dependencies=[ACT])
async def settle(
    run: Name, delivery: Id, action: Literal["requeue", "skip"], by: Actor, service: Here, live: Watching
) -> Response:
    """Give a dead delivery its attempts again, or give it up."""
    operation = {"requeue": streams.requeue, "skip": streams.skip}[action]

    async def work(connection):
        _check_run(run, (await store.deliveries.find(connection, delivery)).run)
        await operation(connection, delivery, by)

    await service.write(run, work)
    return _done(live, run)


@router.post("/groups/{group}/discard", dependencies=[ACT])
async def discard(run: Name, group: Id, by: Actor, service: Here, live: Watching) -> Response:
    """Give an open group up."""

    async def work(connection):
        _check_run(run, (await store.groups.find(connection, group)).run)
        await groups.discard(connection, group, by)

    await service.write(run, work)
    return _done(live, run)


def _done(live: Live, run: str) -> Response:
    """The overview, with what was done."""
    live.forget(run)
    return see_other(f"/runs/{run}")


def _check_run(run: str, of: str) -> None:
    """A session bound to one run must not reach another's things by their ids."""
    if of != run:
        raise Forbidden(f"this is no thing of run {run}")


def _reason(form: dict[str, str]) -> str:
    try:
        return _REASON.validate_python(form.get("reason") or "by-operator")
    except ValidationError:
        raise InvalidInput("a reason is a code: small letters, digits and hyphens, at most 64") from None
