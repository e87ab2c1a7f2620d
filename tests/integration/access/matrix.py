"""Who may call what, written down apart from the code, and the callers that are tried on every route."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import httpx
from fastapi import FastAPI

from shared.http.guard import declared
from shared.http.keys import Key, new_key
from shared.ids import new_id
from shared.schemas.base import ROLES, KeyRole

RUN, OTHER = "r1", "r2"
HEALTH = {"GET /healthz": "", "GET /readyz": ""}
SYNC = HEALTH | {
    "GET /metrics": "metrics viewer operator",
    "PUT /v1/runs/{run}": "operator",
    "GET /v1/runs": "viewer operator",
    "GET /v1/runs/{run}": "planner executor viewer operator",
    "GET /v1/runs/{run}/status": "planner executor viewer operator",
    "GET /v1/runs/{run}/verdict": "planner executor viewer operator",
    "GET /v1/runs/{run}/steps": "planner executor viewer operator",
    "POST /v1/runs/{run}:pause": "operator",
    "POST /v1/runs/{run}:resume": "operator",
    "POST /v1/runs/{run}:drain": "operator",
    "POST /v1/runs/{run}:fail": "operator",
    "POST /v1/runs/{run}:purge": "operator",
    "PUT /v1/groups/{group}": "planner",
    "POST /v1/groups:batch": "planner",
    "GET /v1/groups/{group}": "planner executor viewer operator",
    "GET /v1/runs/{run}/groups": "planner executor viewer operator",
    "GET /v1/groups/{group}/rollouts": "planner executor viewer operator",
    "GET /v1/groups/{group}/trajectories": "planner executor viewer operator",
    "POST /v1/groups/{group}:discard": "operator",
    "PUT /v1/rollouts/{rollout}": "planner",
    "POST /v1/rollouts:batch": "planner",
    "GET /v1/rollouts/{rollout}": "planner executor viewer operator",
    "PUT /v1/trajectories/{trajectory}": "executor",
    "POST /v1/trajectories:batch": "executor",
    "GET /v1/trajectories/{trajectory}": "planner executor viewer operator",
    "POST /v1/runs/{run}/streams/{role}:resume": "planner executor",
    "POST /v1/runs/{run}/streams/{role}:lease": "planner executor",
    "POST /v1/runs/{run}/streams/{role}:renew": "planner executor",
    "POST /v1/runs/{run}/streams/{role}:ack": "planner executor",
    "POST /v1/runs/{run}/streams/{role}:release": "planner executor",
    "GET /v1/runs/{run}/deliveries": "planner executor viewer operator",
    "POST /v1/deliveries/{delivery}:requeue": "operator",
    "POST /v1/deliveries/{delivery}:skip": "operator",
    "PUT /v1/runs/{run}/policies/{role}/{epoch}.{step}": "planner executor",
    "GET /v1/runs/{run}/policies": "planner executor viewer operator",
    "PUT /v1/runs/{run}/workers/{worker}": "planner executor",
    "GET /v1/runs/{run}/workers": "planner executor viewer operator",
    "GET /v1/events": "viewer operator",
    "GET /v1/audit": "viewer operator",
}
PAGES = {
    "GET /static/{name}": "",
    "GET /login": "",
    "POST /login": "",
    "POST /logout": "",
    "GET /": "viewer operator",
    "GET /runs/{run}": "viewer operator",
    "GET /runs/{run}/live": "viewer operator",
    "GET /runs/{run}/learning": "viewer operator",
    "GET /runs/{run}/alignment": "viewer operator",
    "GET /runs/{run}/steps": "viewer operator",
    "GET /runs/{run}/steps/{step}": "viewer operator",
    "GET /runs/{run}/steps/{step}/rollouts/{rollout}": "viewer operator",
    "GET /runs/{run}/steps/{step}/rollouts/{rollout}/text": "viewer operator",
    "GET /runs/{run}/events": "viewer operator",
    "POST /runs/{run}/{move}": "operator",
    "POST /runs/{run}/deliveries/{delivery}/{action}": "operator",
    "POST /runs/{run}/groups/{group}/discard": "operator",
}
"""The dashboard, which a session opens; no key in `Authorization` does."""
BOTH = HEALTH | {
    "GET /metrics": "metrics viewer operator",
    "GET /v1/trajectories/{trajectory}": "viewer operator",
    "GET /v1/checkpoints": "viewer operator",
    "POST /v1/checkpoints/{name}:keep": "operator",
}
PLANNER = BOTH | {"PUT /v1/evaluations/{evaluation}": "operator", "GET /v1/evaluations/{evaluation}": "viewer operator"}
EXECUTOR = BOTH | {"PUT /v1/invocations/{invocation}": "planner"}
OF_ALL_RUNS = {"GET /v1/runs", "GET /v1/events", "GET /v1/audit", "GET /metrics"}
"""What a key that is bound to a run may call: the answer holds that run alone, or no run."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who calls; `role` None: no live key."""

    name: str
    header: str | None
    role: KeyRole | None = None
    run: str | None = None


class Keyring:
    """A key of each role for every run, for RUN and for OTHER, and one of each role that is revoked."""

    def __init__(self) -> None:
        self.live: list[Key] = []
        self.revoked: list[Key] = []
        self.callers = [
            Caller("nobody", None),
            Caller("empty", "Bearer "),
            Caller("malformed", "Bearer tandem_x"),
            Caller("stranger", f"Bearer {new_key('operator')[0]}"),
        ]
        for role in get_args(KeyRole):
            for run in (None, RUN, OTHER):
                text, key = new_key(role, run)
                self.live.append(key)
                self.callers.append(Caller(f"{role} of {run}", f"Bearer {text}", role, run))
            text, key = new_key(role)
            self.revoked.append(key)
            self.callers.append(Caller(f"revoked {role}", f"Bearer {text}"))
            last = self.callers[-2].header or ""
            self.callers.append(Caller(f"{role} guessed", last[:-1] + ("0" if last[-1] != "0" else "1")))
            self.callers.append(Caller(f"{role} as basic", last.replace("Bearer", "Basic")))

    def key(self, role: KeyRole, run: str | None = None) -> str:
        """The header of a live key."""
        return next(
            caller.header for caller in self.callers if (caller.role, caller.run) == (role, run) and caller.header
        )


def expected(call: str, roles: str, caller: Caller, of_all: Collection[str]) -> int | None:
    """The status of a refusal, or None where the call must be let in."""
    if not roles:
        return None
    if caller.role is None:
        return 401
    if caller.role not in roles.split():
        return 403
    of_a_run = call not in of_all and not call.endswith(":batch")  # a batch refuses item by item
    return 403 if of_a_run and caller.run == OTHER else None


def routes(app: FastAPI) -> set[str]:
    """Every call of the app."""
    return {f"{method} {route.path_format}" for route, _ in declared(app) for method in route.methods or ()}


def tries(table: dict[str, str], keyring: Keyring, of_all: Collection[str]) -> Iterator[tuple[str, Caller, int | None]]:
    """Every call with every caller, and how it must be refused; `of_all`: calls that are of no one run."""
    for call, roles in table.items():
        for caller in keyring.callers:
            yield call, caller, expected(call, roles, caller, of_all)


async def ask(
    http: httpx.AsyncClient, call: str, caller: Caller, parts: dict[str, Any], body: dict[str, Any] | str | None
) -> httpx.Response:
    """Call as `caller`, who names its own role where a role is named."""
    role = caller.role if caller.role in ROLES else "planner"
    places = {"run": RUN, "role": role, "epoch": 1, "step": 1, "worker": f"{role}-1", "name": "best"} | parts
    method, path = call.format_map(_Ids(places)).split()
    headers = {"authorization": caller.header} if caller.header else {}
    if isinstance(body, str):
        return await http.request(method, path, headers=headers, content=body)
    content = body | {"role": role} if body and "role" in body else body
    return await http.request(method, path, headers=headers, json=content)


class _Ids(dict):
    """An id nobody has, for a place that is not given."""

    def __missing__(self, _: str) -> str:
        return new_id()
