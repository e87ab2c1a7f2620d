"""The texts of a rollout, asked for at the servers that own them: the planner's, and each invocation's."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound, Unavailable
from shared.schemas.base import Role
from shared.schemas.invocation import TrajectoryView
from sync_service import store
from sync_service.operations.lineage import Tree, tree
from sync_service.operations.turns import Turn, nested, plain
from sync_service.owner import Owners

ALL_S = 8.0
"""How long all texts of a rollout may take together."""
MOST = 32
"""Invocations whose texts are asked for."""

Addresses = Mapping[Role, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Reading:
    """`planner`: its turns, with the invocations that each made; `loose`: ids of those that no turn fits.

    `executor`: each invocation's turns, by id. `faults`: why a text is not here, by id.
    """

    planner: Sequence[Turn] = ()
    loose: Sequence[str] = ()
    executor: Mapping[str, Sequence[Turn]] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)


async def find(connection: AsyncConnection, run: str, rollout: str) -> tuple[Tree, Addresses]:
    """The rollout, and where the workers of each role say that they are, those first that were seen last."""
    found = await tree(connection, run, rollout)
    addresses: dict[Role, list[str]] = {"planner": [], "executor": []}
    for row in await store.workers.addresses(connection, run):
        addresses[row.role].append(row.url)
    return found, addresses


async def read(owners: Owners, run: str, of: Tree, addresses: Addresses) -> Reading:
    """Every text that can be had in time."""
    faults: dict[str, str] = {}

    async def ask(role: Role, id: str) -> TrajectoryView | None:
        try:
            return await owners.read(addresses[role], run, role, id)
        except (NotFound, Unavailable) as error:
            faults[id] = error.detail
            return None

    asked: list[tuple[Role, str]] = [("executor", node.row.id) for node in of.invocations[:MOST]]
    if of.root.row.planner_trajectory:
        asked.append(("planner", of.root.row.planner_trajectory))
    tasks = {id: asyncio.create_task(ask(role, id)) for role, id in asked}
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=ALL_S)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    views = {id: task.result() for id, task in tasks.items() if not task.cancelled()}
    faults |= dict.fromkeys(tasks.keys() - views.keys(), f"not read within {ALL_S:g} s")
    faults |= {node.row.id: f"only those of the first {MOST} calls are read" for node in of.invocations[MOST:]}
    return _reading(of, {id: view for id, view in views.items() if view}, faults)


def _reading(of: Tree, views: Mapping[str, TrajectoryView], faults: Mapping[str, str]) -> Reading:
    executors = [views[node.row.id] for node in of.invocations if node.row.id in views]
    planner = views.get(of.root.row.planner_trajectory or "")
    turns, loose = nested(planner, executors) if planner else ([], [view.id for view in executors])
    silent = [node.row.id for node in of.invocations if node.row.id not in views]
    return Reading(
        planner=turns,
        loose=[*loose, *silent],
        executor={view.id: plain(view.messages) for view in executors},
        faults=faults,
    )
