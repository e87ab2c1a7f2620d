"""The first page: the runs that the key may read."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from shared.http.guard import bound_run
from sync_service import store
from sync_service.dashboard.access import VIEW
from sync_service.dashboard.live import Watching
from sync_service.dashboard.pages import PageRoute, page
from sync_service.service import Here

router = APIRouter(route_class=PageRoute)

SHOWN = 50
JUDGED = 12
"""Runs in the list that go on, whose verdict is asked for; the others show what the stall detector has told."""
GOING = ("running", "draining")
RESTING = {"declared": "IDLE", "paused": "PAUSED", "finished": "FINISHED", "failed": "FAILED", "purging": "FINISHED"}


@router.get("/", dependencies=[VIEW])
async def list_runs(
    request: Request, service: Here, live: Watching, skip: Annotated[int, Query(ge=0, le=100_000)] = 0
) -> Response:
    """Those that go on first, then the newest."""
    only = bound_run(request)
    rows = await service.database.read(lambda connection: store.overview.runs(connection, only, skip, SHOWN + 1))
    going = [row.run for row in rows if row.state in GOING][:JUDGED]
    verdicts = {run: (await live.snapshot(run)).panels["verdict"] for run in going}
    return page(
        request,
        "runs.html",
        runs=[_listed(row, verdicts.get(row.run)) for row in rows[:SHOWN]],
        at=rows[0].at.isoformat() if rows else "",
        newer=max(0, skip - SHOWN) if skip else None,
        older=skip + SHOWN if len(rows) > SHOWN else None,
    )


def _listed(row: Any, verdict: dict[str, Any] | None) -> dict[str, Any]:
    """A run in the list."""
    return {
        "name": row.run,
        "verdict": verdict["state"] if verdict else RESTING.get(row.state) or ("STALLED" if row.stalls else "OK"),
        "why": verdict["why"][0] if verdict else ", ".join(dict.fromkeys(row.stalls)) or row.reason or "",
        "step": row.step or 0,
        "steps": row.steps,
        "declared_at": row.declared_at.isoformat(),
        "moved_at": row.moved_at.isoformat() if row.moved_at else None,
    }
