"""The calls that both roles' servers answer: their checkpoints, and the text of a trajectory."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel

from shared.errors import NotFound, Unavailable
from shared.http.guard import OPERATOR, VIEWER, within
from shared.ids import Id
from shared.policy.policy import Policy
from shared.schemas.base import Page
from shared.schemas.invocation import Checkpoint, CheckpointView, TrajectoryView


def json(body: BaseModel, status: int = 200) -> Response:
    """`body` as pydantic writes it, once."""
    return Response(body.model_dump_json(), status, media_type="application/json")


def part(request: Request, name: str) -> Any:
    """A part of the running server; Unavailable while it starts."""
    parts = getattr(request.app.state, "parts", None)
    if parts is None:
        raise Unavailable("the policy is still starting")
    return getattr(parts, name)


async def ready(app: FastAPI) -> str | None:
    """The check of `/readyz`."""
    return None if getattr(app.state, "parts", None) else "still starting"


def install_common_routes(app: FastAPI) -> None:
    """Add the routes to `app`; `app.state.parts.policy` is the policy that they show."""

    @app.get("/v1/trajectories/{trajectory}", dependencies=[VIEWER], response_model=TrajectoryView)
    async def trajectory(request: Request, trajectory: Id) -> Response:
        policy: Policy = part(request, "policy")
        stored = (await policy.store.get([trajectory])).get(trajectory)
        if stored is None:
            raise NotFound(f"there is no trajectory {trajectory} here")
        within(request, stored.run)
        view = TrajectoryView(
            id=stored.id,
            run=stored.run,
            role=stored.role,
            tokens=len(stored.token_ids),
            messages=tuple(stored.messages),
            facts=stored.facts,
        )
        return json(view)

    @app.get("/v1/checkpoints", dependencies=[VIEWER], response_model=Page[CheckpointView])
    async def checkpoints(request: Request) -> Response:
        policy: Policy = part(request, "policy")
        views = [
            CheckpointView(name=c.name, step=c.step, updates=c.updates, kept=c.kept, path=str(c.path))
            for c in policy.checkpoints.saved()
        ]
        return json(Page[CheckpointView](items=tuple(views)))

    @app.post("/v1/checkpoints/{name}:keep", dependencies=[OPERATOR], status_code=204)
    async def keep(request: Request, name: Checkpoint) -> Response:
        policy: Policy = part(request, "policy")
        policy.keep(name)
        return Response(status_code=204)
