"""The first page: the runs that the key may read."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from shared.http.guard import bound_run
from sync_service import store
from sync_service.dashboard.access import VIEW
from sync_service.dashboard.pages import PageRoute, page
from sync_service.service import Here

router = APIRouter(route_class=PageRoute)

SHOWN = 50
RESTING = {"declared": "IDLE", "paused": "PAUSED", "finished": "FINISHED", "failed": "FAILED", "purging": "FINISHED"}


@router.get("/", dependencies=[VIEW])
async def list_runs(request: Request, service: Here, skip: Annotated[int, Query(ge=0, le=100_000)] = 0) -> Response:
    """Those that go on first, then the newest."""
    only = bound_run(request)
    rows = await service.database.read(
        lambda connection: store.overview.runs(connection, only, skip, SHOWN + 1),
    )
    runs = [_listed(row) for row in rows[:SHOWN]]
    return page(
        request,
        "runs.html",
        runs=runs,
        at=rows[0].at.isoformat() if rows else "",
        newer=max(0, skip - SHOWN) if skip else None,
        older=skip + SHOWN if len(rows) > SHOWN else None,
    )


def _listed(row: Any) -> dict[str, Any]:
    """A run in the list. Its verdict here is what the stall detector has told; its own page says more."""
    verdict = RESTING.get(row.state) or ("STALLED" if row.stalls else "OK")
    return {
        "name": row.run,
        "state": row.state,
        "reason": row.reason,
        "verdict": verdict,
        "stalls": row.stalls,
        "step": row.step or 0,
        "steps": row.steps,
        "declared_at": row.declared_at.isoformat(),
        "moved_at": row.moved_at.isoformat() if row.moved_at else None,
    }
