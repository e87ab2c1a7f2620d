"""The executor as the planner calls it: the same id until it answers, or counts as failed."""

import asyncio
from collections.abc import Callable

import httpx
import pytest

from planner_server import executor as module
from planner_server.executor import ExecutorClient
from shared.errors import BodyConflict, Unavailable
from shared.ids import new_id
from shared.schemas.invocation import InvocationAnswer, InvocationRequest

ANSWER = InvocationAnswer(status="ok", answer="7", r_format=1)
REQUEST = InvocationRequest(run="r", rollout=new_id(), index=0, subtask="find it", task_id="t")
OK = httpx.Response(200, content=ANSWER.model_dump_json())


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.0)


def client(handler: Callable, **settings: float) -> ExecutorClient:
    chosen = {"deadline_s": 5.0, "attempts": 3} | settings
    return ExecutorClient(httpx.MockTransport(handler), "http://executor", **chosen)  # ty: ignore[invalid-argument-type]


@pytest.mark.parametrize(
    "fault",
    [
        httpx.Response(500, text="boom"),
        httpx.Response(503, json=Unavailable().problem()),
        httpx.Response(429, text="busy"),
        httpx.ConnectError("refused"),
        httpx.ReadError("lost"),
    ],
)
async def test_a_failure_is_retried_under_the_same_id(fault: httpx.Response | Exception):
    answers, seen = [fault, fault, OK], []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.path, request.content))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    invocation = new_id()
    assert await client(handler).invoke(invocation, REQUEST) == ANSWER
    assert len(seen) == 3
    assert set(seen) == {(f"/v1/invocations/{invocation}", REQUEST.model_dump_json().encode())}


async def test_then_the_executor_counts_as_failed():
    with pytest.raises(Unavailable, match=r"failed 3 times.*HTTP 500"):
        await client(lambda _: httpx.Response(500, text="boom")).invoke(new_id(), REQUEST)


async def test_no_answer_in_time_is_a_failure():
    async def handler(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        return OK

    with pytest.raises(Unavailable, match="no answer within"):
        await client(handler, deadline_s=0.01, attempts=2).invoke(new_id(), REQUEST)


async def test_a_refusal_is_not_retried():
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(409, json=BodyConflict().problem())

    with pytest.raises(BodyConflict):
        await client(handler).invoke(new_id(), REQUEST)
    assert len(seen) == 1
