"""Does it learn: both roles' rewards on one axis, and what else says so; one run, or several side by side."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import TypeAdapter, ValidationError

from shared.errors import InvalidInput
from shared.http.guard import within
from shared.ids import Name
from shared.schemas.base import MAX_INTEGER
from sync_service.dashboard import curves
from sync_service.dashboard.access import VIEW
from sync_service.dashboard.pages import PageRoute, page
from sync_service.operations import series
from sync_service.service import Here

router = APIRouter(route_class=PageRoute)

COMPARED = 5
"""Runs side by side, at most: more lines are not told apart."""
_NAME: TypeAdapter[str] = TypeAdapter(Name)

After = Annotated[int, Query(ge=0, le=MAX_INTEGER)]


@router.get("/runs/{run}/learning", dependencies=[VIEW])
async def learning(
    request: Request, run: Name, service: Here, after: After = 0, runs: Annotated[str, Query(max_length=400)] = ""
) -> Response:
    """The curves above step `after`. `runs`: names, with commas, of others to compare with."""
    names = _others(request, run, runs)

    async def read(connection):
        return [await series.curves(connection, name, series.LEARNING, after) for name in (run, *names)]

    own, *others = await service.database.read(read)
    charts = _compared([own, *others]) if others else _alone(own)
    return page(request, "learning.html", charts=charts, of=own, after=after, others=", ".join(names))


def _others(request: Request, run: str, text: str) -> list[str]:
    names = [name for name in dict.fromkeys(text.replace(",", " ").split()) if name != run]
    if len(names) >= COMPARED:
        raise InvalidInput(f"runs: at most {COMPARED} runs are compared")
    try:
        names = [_NAME.validate_python(name) for name in names]
    except ValidationError:
        raise InvalidInput("runs: names of runs, with commas between them") from None
    for name in names:
        within(request, name)
    return names


def _alone(own: series.Curves) -> list[tuple[str, str, curves.Chart]]:
    """Each chart with its id and title."""
    planner = own.roles.get("planner", {})
    accuracy = [
        curves.line(name, planner[key])
        for name, key in (
            ("training tasks", "correct_mean"),
            ("validation", "accuracy_validation"),
            ("test", "accuracy_test"),
        )
        if key in planner
    ]
    return [
        ("reward", "Mean reward, and one deviation about it", curves.rewards(own)),
        ("accuracy", "Right answers", curves.chart(own.steps, accuracy, "share of answers")),
        ("dead", "Dead groups", curves.dead_shares(own)),
        ("clip", "Clipped tokens", curves.of_roles(own, "clip_fraction", "share of tokens")),
        ("gap", "Log-probs: sampler against trainer, mean difference", curves.of_roles(own, "gap_mean", "nats")),
    ]


def _compared(runs: list[series.Curves]) -> list[tuple[str, str, curves.Chart]]:
    return [
        ("reward", "Mean reward", curves.compared(runs, "reward_mean", "reward")),
        ("accuracy", "Right answers", curves.compared(runs, "correct_mean", "share of answers")),
        ("clip", "Clipped tokens", curves.compared(runs, "clip_fraction", "share of tokens")),
        ("gap", "Log-probs: sampler against trainer", curves.compared(runs, "gap_mean", "nats")),
    ]
