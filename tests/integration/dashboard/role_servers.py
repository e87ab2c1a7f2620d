"""The role servers as the dashboard asks them for texts, of which some are hostile."""

import asyncio

import httpx
from fastapi import FastAPI
from fastapi.responses import Response

from shared.schemas.invocation import TrajectoryView
from shared.schemas.rollout import RolloutItem

HOSTILE = "<script>hacked = 1</script>\0\u202eesrever " + "x" * 30_000
CALL = '<tool_call>{"name": "delegate", "arguments": {"task": "find %d"}}</tool_call>'


class RoleServers:
    """Both of them, wherever they are: their texts, and who asked. `answer`: what they say to everything.

    `silent`: they never answer.
    """

    def __init__(self) -> None:
        self.texts: dict[str, TrajectoryView] = {}
        self.asked: list[httpx.Request] = []
        self.answer: Response | None = None
        self.silent = False
        self._app = FastAPI()
        self._app.get("/v1/trajectories/{id}")(self._trajectory)

    def transport(self) -> httpx.AsyncBaseTransport:
        """The wire to them."""
        return httpx.MockTransport(self._handle)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.silent:
            await asyncio.Event().wait()
        return await httpx.ASGITransport(app=self._app).handle_async_request(request)

    async def _trajectory(self, id: str) -> Response:
        if self.answer is not None:
            return self.answer
        view = self.texts.get(id)
        return Response(view.model_dump_json() if view else "", 200 if view else 404)

    def tell(self, rollout: RolloutItem, run: str, parts: tuple[str, ...] = ()) -> None:
        """They have the texts of a rollout that made all its calls in its first turn; `parts`, to its own policy."""
        planner, calls = rollout.body.planner_trajectory or "", rollout.body.executor_trajectories + parts
        asks = "".join(CALL % index for index in range(len(calls)))
        messages = (
            {"role": "user", "content": "Which capital?"},
            {"role": "assistant", "content": asks + HOSTILE},
            {"role": "tool", "content": "Paris"},
            {"role": "assistant", "content": "<answer>Paris</answer>"},
        )
        self._put(planner, run, "planner", messages, {"invocations": list(calls), "parts": list(parts)})
        for index, id in enumerate(calls):
            found = ({"role": "assistant", "content": f"I looked for {index}"},)
            self._put(id, run, "executor", found, {"request": {"index": index, "subtask": f"find {index}"}})

    def _put(self, id: str, run: str, role, messages: tuple[dict, ...], facts: dict) -> None:
        self.texts[id] = TrajectoryView(id=id, run=run, role=role, tokens=5, messages=messages, facts=facts)
