"""Does alignment do what it is for: which rows it copies, drops and masks, and how many rollouts D_max covers."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from shared.ids import Name
from shared.schemas.base import MAX_INTEGER
from sync_service.dashboard import curves
from sync_service.dashboard.access import VIEW
from sync_service.dashboard.pages import PageRoute, page
from sync_service.operations import series
from sync_service.operations.quality import COVERAGE, coverage, needed
from sync_service.service import Here

router = APIRouter(route_class=PageRoute)

ROWS = (
    ("distinct", "rows_distinct"),
    ("copied", "rows_copied"),
    ("dropped", "rows_dropped"),
    ("masked", "rows_masked"),
)

GAPS = 200
"""Bars at most: a trainer may tell of any number of calls, and what is between them is drawn only if it is small."""


@router.get("/runs/{run}/alignment", dependencies=[VIEW])
async def alignment(
    request: Request, run: Name, service: Here, after: Annotated[int, Query(ge=0, le=MAX_INTEGER)] = 0
) -> Response:
    """The rows of the executor's batches above step `after`, and the calls of the rollouts behind them."""

    async def read(connection):
        found = await series.curves(connection, run, series.ALIGNMENT, after)
        return found, await series.calls(connection, found)

    of, calls = await service.database.read(read)
    covered = coverage(calls.bars, of.spec.d_max)
    return page(
        request,
        "alignment.html",
        of=of,
        after=after,
        rows=_rows(of),
        bars=_bars(calls.bars, of.spec.d_max),
        coverage=curves.chart(of.steps, [curves.line("P(d ≤ D_max)", calls.covered)], "share", least=COVERAGE),
        covered=covered,
        short=covered is not None and covered < COVERAGE and of.spec.alignment != "none",
        needed=needed(calls.bars),
    )


def _rows(of: series.Curves) -> curves.Chart:
    executor = of.roles.get("executor", {})
    lines = [curves.line(name, executor[key]) for name, key in ROWS if key in executor]
    full = of.spec.d_max * of.spec.rollouts_per_group * of.spec.groups_per_step
    return curves.chart(of.steps, lines, "rows of a step", all_slots_times_D_max=full)


def _bars(bars: dict[int, int], d_max: int) -> curves.Chart:
    most = max(bars, default=-1)
    shown = range(most + 1) if most <= GAPS else sorted(bars)[:GAPS]
    names = [f"{calls} = D_max" if calls == d_max else str(calls) for calls in shown]
    counts: list[float | None] = [float(bars.get(calls, 0)) for calls in shown]
    return {
        "x": names,
        "xLabel": "calls",
        "yLabel": "rollouts",
        "series": [{"name": "rollouts", "role": "executor", "y": counts}],
    }
