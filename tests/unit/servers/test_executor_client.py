"""The executor as the planner calls it: the same id until it answers, or counts as failed."""

import asyncio
from collections.abc import Callable

import httpx
import pytest

from planner_server import executor as module
from planner_server.delegation import DELEGATE, Delegations
from planner_server.executor import ExecutorClient, ExecutorFailed
from planner_server.team import Remote
from shared.environments.base import Task, ToolResult
from shared.errors import (
    BodyConflict,
    Conflict,
    Forbidden,
    InvalidInput,
    PromptTooLong,
    TandemError,
    Unauthorized,
    Unavailable,
    UserError,
)
from shared.ids import new_id
from shared.policy.types import SamplingParams
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
    with pytest.raises(ExecutorFailed, match=r"failed 3 times.*HTTP 500"):
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


@pytest.mark.parametrize(
    ("answer", "fault", "says"),
    [
        (httpx.Response(409, json=Conflict("works for run a, not r").problem()), Conflict, "works for run a, not r"),
        (httpx.Response(422, json=InvalidInput("subtask: missing").problem()), UserError, "http://executor.*subtask"),
        (
            httpx.Response(401, json=Unauthorized("no such key").problem()),
            UserError,
            "http://executor.*key: no such key",
        ),
        (httpx.Response(403, json=Forbidden("of run b").problem()), UserError, "http://executor.*key: of run b"),
        (httpx.Response(404, text="<html>"), UserError, "http://executor does not answer as an executor: HTTP 404"),
        (httpx.Response(404, json=["nothing"]), UserError, "http://executor does not answer as an executor"),
        (httpx.Response(200, json={"hello": "world"}), UserError, "http://executor does not answer as an executor"),
    ],
)
async def test_a_fault_of_the_configuration_is_never_shown_to_the_model(
    answer: httpx.Response, fault: type[TandemError], says: str
):
    with pytest.raises(fault, match=says):
        await delegated("find it", answer)


@pytest.mark.parametrize(
    ("subtask", "answer"),
    [("find it", httpx.Response(422, json=PromptTooLong().problem())), ("x" * 100_001, OK)],
)
async def test_a_subtask_that_is_too_long_is_the_models_mistake(subtask: str, answer: httpx.Response):
    assert await delegated(subtask, answer) == ToolResult("error", "The subtask is too long.")


@pytest.mark.parametrize(("written", "sent"), [("a\0b", "a\ufffdb"), ("a\ud800b", "a?b")])
async def test_what_is_no_text_in_a_subtask_is_replaced(written: str, sent: str):
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(InvocationRequest.model_validate_json(request.content).subtask)
        return OK

    assert (await call(client(handler), written)).state == "ok"
    assert seen == [sent]


@pytest.mark.parametrize("key", [None, "tandem_secret"])
async def test_the_key_is_sent_where_there_is_one(key: str | None):
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return OK

    transport = httpx.MockTransport(handler)
    await ExecutorClient(transport, "http://executor", key=key, deadline_s=5.0, attempts=1).invoke(new_id(), REQUEST)
    assert set(seen) == {key and f"Bearer {key}"}


async def delegated(subtask: str, answer: httpx.Response) -> ToolResult:
    return await call(client(lambda _: answer), subtask)


async def call(executor: ExecutorClient, subtask: str) -> ToolResult:
    task, params = Task(id="t", query="?", answer="!"), SamplingParams(max_new_tokens=8)
    made = Delegations(Remote(executor), "r", new_id(), task, "train", None, params, None)
    return await DELEGATE.bound(made).call("delegate", {"task": subtask})
