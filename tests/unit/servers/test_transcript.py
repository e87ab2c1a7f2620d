"""Transcripts of an evaluation: what the wire takes, whatever a model wrote."""

from types import SimpleNamespace
from typing import Any

from planner_server.transcript import transcript
from shared.environments.base import Task, ToolCall, ToolResult
from shared.schemas.invocation import EXCERPT

TASK = Task(id="t", query="capital of France", answer="Paris")


def rollout(answer: str | None, *calls: ToolCall) -> Any:
    return SimpleNamespace(episode=SimpleNamespace(calls=calls, answer=answer), r_correct=float(answer == "Paris"))


def test_calls_results_and_the_answer_are_told():
    told = transcript(TASK, rollout("Paris", ToolCall("delegate", {"task": "x"}, ToolResult("error", "no"))))
    assert (told.query, told.key, told.answer, told.correct) == ("capital of France", "Paris", "Paris", 1.0)
    (call,) = told.calls
    assert (call.name, call.arguments, call.state, call.result) == ("delegate", '{"task": "x"}', "error", "no")


def test_no_valid_answer_is_none():
    assert transcript(TASK, rollout(None)).answer is None


def test_half_a_pair_and_a_long_text_pass_the_wire():
    hostile = ToolCall("\ud800", {"\udfff": "\ud800"}, ToolResult("ok", "x" * 3 * EXCERPT))
    told = transcript(TASK, rollout("\ud800", hostile))
    assert type(told).model_validate_json(told.model_dump_json()) == told
    assert len(told.calls[0].result) == EXCERPT
