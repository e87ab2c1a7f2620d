"""From a step to its groups, to a rollout, to what the executor did for it."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from shared.ids import Id, Name
from shared.schemas.base import MAX_INTEGER
from sync_service import store
from sync_service.dashboard.access import VIEW
from sync_service.dashboard.pages import PageRoute, page
from sync_service.operations import lineage, reading
from sync_service.service import Here

router = APIRouter(route_class=PageRoute, prefix="/runs/{run}/steps")

SHOWN = 50
StepPath = Annotated[int, Path(ge=1, le=MAX_INTEGER)]


@router.get("", dependencies=[VIEW])
async def steps(
    request: Request, run: Name, service: Here, before: Annotated[int, Query(ge=1, le=MAX_INTEGER)] = MAX_INTEGER
) -> Response:
    """The steps that are opened, the newest first."""

    async def read(connection):
        await store.runs.find(connection, run)
        return await store.steps.below(connection, run, before, SHOWN)

    listed: dict[int, dict[str, Any]] = {}
    for row in await service.database.read(read):
        step = listed.setdefault(row.step, {"step": row.step, "batch": row, "roles": []})
        step["roles"] += [row] if row.role else []
    older = min(listed) if len(listed) == SHOWN and min(listed) > 1 else None
    return page(request, "steps.html", steps=listed.values(), older=older, first=before == MAX_INTEGER)


@router.get("/{step}", dependencies=[VIEW])
async def step(request: Request, run: Name, step: StepPath, service: Here) -> Response:
    """The groups of a step, with their rollouts."""
    groups = await service.database.read(lambda connection: lineage.step_groups(connection, run, step))
    return page(request, "step.html", step=step, groups=groups)


@router.get("/{step}/rollouts/{rollout}", dependencies=[VIEW])
async def rollout(request: Request, run: Name, step: StepPath, rollout: Id, service: Here) -> Response:
    """A rollout and its invocations as recorded; the texts are asked for by the page."""
    tree = await service.database.read(lambda connection: lineage.tree(connection, run, rollout))
    return page(request, "rollout.html", step=tree.root.row.step, tree=tree, text=None)


@router.get("/{step}/rollouts/{rollout}/text", dependencies=[VIEW])
async def rollout_text(request: Request, run: Name, step: StepPath, rollout: Id, service: Here) -> Response:
    """The tree with the texts, read from the servers that own them: a part of the page above, and a page by itself."""
    tree, owners = await service.database.read(lambda connection: reading.find(connection, run, rollout))
    text = await reading.read(service.owners, run, tree, owners)
    template = "tree.html" if request.headers.get("hx-request") else "rollout.html"
    return page(request, template, step=tree.root.row.step, tree=tree, text=text)
