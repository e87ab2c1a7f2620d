"""The texts of a rollout, asked for at the servers that own them: the planner's, and each invocation's.

Those of a policy that delegates to itself are in the planner server's store, and only the planner's text names them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound, Unavailable
from shared.ids import Id
from shared.schemas.base import Role
from shared.schemas.invocation import PARTS, TrajectoryView
from sync_service import store
from sync_service.operations.lineage import Tree, tree
from sync_service.operations.turns import Turn, nested, plain
from sync_service.owner import Owners

ALL_S = 8.0
"""How long all texts of a rollout may take together."""
MOST = 32
"""Invocations whose texts are asked for."""

_IDS = TypeAdapter(list[Id])
Asked = tuple[Role, Role, str]
"""Whose server is asked, the role of the trajectory, its id."""
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
    asking = _Asking(owners, run, addresses, asyncio.get_running_loop().time() + ALL_S)
    planner, invocations = of.root.row.planner_trajectory, [node.row.id for node in of.invocations]
    root: list[Asked] = [("planner", "planner", planner)] if planner else []
    await asking.all([*(("executor", "executor", id) for id in asking.first(invocations)), *root])
    parts = _parts(asking.views.get(planner or ""))
    await asking.all([("planner", "executor", id) for id in asking.first(parts)])
    below = [*invocations, *parts]
    views = [asking.views[id] for id in below if id in asking.views]
    turns, loose = [], [view.id for view in views]
    if planner in asking.views:
        turns, loose = nested(asking.views[planner], views)
    return Reading(
        planner=turns,
        loose=[*loose, *(id for id in below if id not in asking.views)],
        executor={view.id: plain(view.messages) for view in views},
        faults=asking.faults,
    )


@dataclass(slots=True)
class _Asking:
    """`until`: when, by the loop's clock, nothing more is waited for."""

    owners: Owners
    run: str
    addresses: Addresses
    until: float
    views: dict[str, TrajectoryView] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def first(self, ids: Sequence[str]) -> Sequence[str]:
        """Those that are asked for; that the others are not is said."""
        self.faults |= dict.fromkeys(ids[MOST:], f"only those of the first {MOST} calls are read")
        return ids[:MOST]

    async def all(self, asked: Sequence[Asked]) -> None:
        """Ask for all of them at once."""
        tasks = {one[-1]: asyncio.create_task(self._one(*one)) for one in asked}
        try:
            if tasks:
                left_s = self.until - asyncio.get_running_loop().time()
                await asyncio.wait(tasks.values(), timeout=max(0.0, left_s))
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        self.faults |= {id: f"not read within {ALL_S:g} s" for id, task in tasks.items() if task.cancelled()}

    async def _one(self, at: Role, role: Role, id: str) -> None:
        try:
            self.views[id] = await self.owners.read(self.addresses[at], self.run, at, id, role)
        except (NotFound, Unavailable) as error:
            self.faults[id] = error.detail


def _parts(view: TrajectoryView | None) -> list[str]:
    """What the planner's trajectory says is below it; nothing where it says what is no list of ids."""
    try:
        return _IDS.validate_python(view.facts.get(PARTS, []) if view else [])
    except ValidationError:
        return []
