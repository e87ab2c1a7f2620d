"""The audit, the newest first."""

from fastapi import APIRouter, Request, Response

from shared.http.guard import VIEWER, bound_run, within
from shared.ids import Name
from shared.schemas.base import Page
from shared.schemas.views import AuditRow
from sync_service import store
from sync_service.routes.answers import PAGE, Cursor, Limit, decode, page
from sync_service.service import Here

router = APIRouter(tags=["audit"])

NEWEST = 2**63 - 1


@router.get("/audit", dependencies=[VIEWER], response_model=Page[AuditRow])
async def list_audit(
    request: Request, service: Here, run: Name | None = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """What operators did, the newest first; of one run, if it is given."""
    (before,) = decode(cursor, (NEWEST,))
    if run is not None:
        within(request, run)
    of_run = run or bound_run(request)
    found = await service.database.read(lambda connection: store.audit.page(connection, of_run, before, limit))
    return page(found, limit, lambda row: (row.id,))
