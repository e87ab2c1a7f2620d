"""The texts of trajectories, from the servers that own them: tokens and text never pass through the sync service."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from shared.cli.account import Account
from shared.cli.server import Server
from shared.errors import NotFound, TandemError
from shared.schemas.base import Role
from shared.schemas.invocation import PARTS, TrajectoryView
from shared.schemas.views import WorkerRow

ANSWER_S = 10.0


def parts(told: Mapping[str, Any]) -> list[str]:
    """The trajectories below one, whose text was told: delegations that its own policy answered."""
    return [str(part) for part in told.get("facts", {}).get(PARTS, ())]


class Texts:
    """Asks each worker of a role in turn, at the URL that it gave; the key is the caller's own."""

    def __init__(self, sync: Server, run: str, key: str | None) -> None:
        self._key = key
        self._urls: defaultdict[Role, list[str]] = defaultdict(list)
        for worker in sync.items(f"/v1/runs/{run}/workers", WorkerRow):
            if worker.url not in self._urls[worker.role]:
                self._urls[worker.role].append(worker.url)

    def of(self, account: Account) -> dict[str, dict]:
        """By trajectory: `messages` and `facts`, or why there are none, as `problem`."""
        found = {}
        if planner := account.rollout.planner_trajectory:
            found[planner] = self._text("planner", planner)
            found |= {part: self._text("planner", part) for part in parts(found[planner])}
        return found | {call.id: self._text("executor", call.id) for call in account.calls}

    def _text(self, role: Role, trajectory: str) -> dict:
        problem = f"no {role} server has told where it is"
        for url in self._urls[role]:
            try:
                with Server(url, self._key, f"the {role} server", timeout_s=ANSWER_S) as server:
                    view = server.get(f"/v1/trajectories/{trajectory}", TrajectoryView)
            except NotFound as error:
                problem = f"{error.detail} at {url}: it is stored no more"
            except TandemError as error:
                problem = error.detail
            else:
                return {"messages": list(view.messages), "facts": view.facts}
        return {"problem": problem}
