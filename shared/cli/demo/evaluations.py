"""Evaluations through the servers. Each is named by what it asks for, so a resumed run takes it up where it was."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

import httpx

from shared.cli.demo.metrics import read_entries
from shared.cli.demo.settings import Settings
from shared.errors import UserError, from_problem
from shared.ids import derived_id
from shared.schemas.base import Role
from shared.schemas.invocation import EvaluationRequest, EvaluationView

POLL_S = 0.25
LOOKS = 8


FIRST = "initial"
"""The checkpoint before training."""


class EvaluationFailed(UserError):
    """An evaluation ended without a result."""


class Checkpoints(TypedDict):
    """The fields of a request that say on which weights it runs."""

    planner_checkpoint: str
    executor_checkpoint: str


def of_checkpoints(settings: Settings, names: Mapping[Role, str]) -> Checkpoints:
    """Which checkpoints a request names: a role without one here is as it was; a team of one model has one."""
    planner = names.get("planner", FIRST)
    executor = names.get("executor", FIRST) if settings.team == "pair" else planner
    return {"planner_checkpoint": planner, "executor_checkpoint": executor}


class Evaluator:
    """Runs evaluations on the planner server; what is finished is kept in a JSONL file and not run again."""

    def __init__(self, run: str, planner_url: str, log: Path, check: Callable[[], None], *, key: str) -> None:
        self._run = run
        self._http = httpx.AsyncClient(base_url=planner_url, timeout=30.0, headers={"authorization": f"Bearer {key}"})
        self._log = log
        self._check = check
        self._done = {view.id: view for view in read_entries(log, EvaluationView.model_validate_json)}

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def evaluate(
        self, request: EvaluationRequest, progress: Callable[[int], None] = lambda done: None
    ) -> EvaluationView:
        """The result of `request`; `progress` is told the tasks done."""
        name = derived_id(self._run, request.model_dump_json())
        if name in self._done:
            return self._done[name]
        await self._send("PUT", f"/v1/evaluations/{name}", request.model_dump_json())
        while True:
            view = EvaluationView.model_validate_json((await self._send("GET", f"/v1/evaluations/{name}")).content)
            progress(view.done)
            if view.state == "failed":
                raise EvaluationFailed(f"the evaluation on {request.split} failed: {view.reason}")
            if view.state == "done":
                return self._keep(view)
            self._check()
            await asyncio.sleep(POLL_S)

    async def keep_checkpoint(self, role_url: str, name: str) -> None:
        """Ask a server to keep the checkpoint `name` as its best."""
        await self._send("POST", f"{role_url}/v1/checkpoints/{name}:keep")

    async def checkpoints(self, role_url: str) -> set[str]:
        """The names of the checkpoints that a server has."""
        body = json.loads((await self._send("GET", f"{role_url}/v1/checkpoints")).content)
        return {item["name"] for item in body["items"]}

    async def last_checkpoint(self, role_url: str) -> str:
        """The name of a server's newest checkpoint: a name that means the same for the whole of an evaluation."""
        names = await self.checkpoints(role_url)
        return max(names, key=lambda name: int(name.removeprefix("step-")), default="initial")

    async def _look_for_a_death(self) -> None:
        """A process that dies closes its connections a moment before anybody can see that it has ended."""
        for _ in range(LOOKS):
            self._check()
            await asyncio.sleep(POLL_S)

    def _keep(self, view: EvaluationView) -> EvaluationView:
        self._done[view.id] = view
        with self._log.open("a") as file:
            file.write(view.model_dump_json() + "\n")
        return view

    async def _send(self, method: str, path: str, body: str | None = None) -> httpx.Response:
        try:
            response = await self._http.request(method, path, content=body)
        except httpx.TransportError as error:
            await self._look_for_a_death()
            raise UserError(f"{self._http.base_url.join(path)} cannot be reached: {error!r}") from error
        if not response.is_success:
            raise from_problem(response.json(), response.status_code)
        return response
