"""Every way in which an invocation ends, by one executor whose model does everything."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shared.ids import new_id
from shared.schemas.invocation import InvocationAnswer
from tests.parity_environment import LONG, MALFORMED, STRANGER, call, twice

from .requests import put, request
from .trio import answers, calls, http, trio

MIXED = {**answers(0.9), **calls("executor", 1.2), call("executor", LONG): 1.2, twice("executor", 0): 1.4}
MIXED |= {MALFORMED: 1.0, STRANGER: 1.0, "5": 1.0}
LIMITS = {
    "max_turns": 3,
    "max_calls": 3,
    "max_parallel_calls": 2,
    "max_context_tokens": 27,
    "tool_timeout_s": 60.0,
    "deadline_s": 4.0,
}
SETTINGS: dict[str, Any] = {
    "environment": "tests.parity_environment:Stubborn",
    "limits": LIMITS,
    "trains": False,
}
INVOCATIONS = 400


@pytest.fixture(scope="module")
def mixed(postgres_url: str, redis_url: str, module_folder: Path) -> dict[str, tuple[InvocationAnswer, dict]]:
    """Many invocations of one server whose model does everything: their answers, and what is stored of them."""

    async def record() -> dict[str, tuple[InvocationAnswer, dict]]:
        async with trio(postgres_url, redis_url, module_folder) as servers:
            executor = await servers.start_executor(MIXED, **SETTINGS)
            await servers.declare(trained_roles=("planner",))
            async with http(executor) as client:
                ids = [new_id() for _ in range(INVOCATIONS)]
                responses = await asyncio.gather(*(put(client, id_, request(servers.run)) for id_ in ids))
                views = await asyncio.gather(*(client.get(f"/v1/trajectories/{id_}") for id_ in ids))
            answers = [InvocationAnswer.model_validate_json(response.content) for response in responses]
            await servers.status_where(lambda status: sum(status.trajectories.values()) == INVOCATIONS)
            return {id_: (a, v.json()) for id_, a, v in zip(ids, answers, views, strict=True)}

    return asyncio.run(record())


@pytest.mark.parametrize("reason", ["turn-limit", "call-limit", "context-limit", "time-limit", "turn-cut-off"])
def test_each_limit_is_met_and_ends_in_an_answer_or_in_an_invalid_format(mixed, reason: str):
    met = [answer for answer, view in mixed.values() if view["facts"]["reason"] == reason]
    assert met, {view["facts"]["reason"] for _, view in mixed.values()}
    for answer in met:
        assert answer.status == ("limit" if answer.r_format else "error")
    assert all(answer.r_format == 0 for answer in met) == (reason == "turn-cut-off")


@pytest.mark.parametrize("reason", ["malformed-call", "limit-ignored"])
def test_a_broken_turn_is_an_empty_answer_in_state_error(mixed, reason: str):
    broken = [answer for answer, view in mixed.values() if view["facts"]["reason"] == reason]
    assert {(a.status, a.answer, a.r_format) for a in broken} == {("error", "", 0)}


@pytest.mark.parametrize("state", ["ok", "error", "timeout", "limit"])
def test_each_state_of_a_tool_reaches_the_model(mixed, state: str):
    assert any(call["result"]["state"] == state for _, view in mixed.values() for call in view["facts"]["calls"])


def test_an_unknown_tool_is_an_error_that_names_the_tools(mixed):
    results = [c["result"] for _, view in mixed.values() for c in view["facts"]["calls"] if c["name"] == "fly"]
    assert any(r["state"] == "error" and "There is no tool 'fly'" in r["content"] for r in results)


def test_the_text_of_a_trajectory_is_there_for_people(mixed):
    for answer, view in mixed.values():
        assert view["role"] == "executor"
        assert [m["role"] for m in view["messages"]].count("assistant") == answer.turns
