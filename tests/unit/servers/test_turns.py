"""A rollout's text as turns: each call of the executor below the turn that made it, whatever the models wrote."""

import json
from typing import Any

import pytest

from shared.ids import new_id
from shared.schemas.invocation import TrajectoryView
from sync_service.operations.turns import CALLS, SHOWN, TURNS, nested, plain


def asks(*subtasks: str) -> dict[str, Any]:
    calls = [json.dumps({"name": "delegate", "arguments": {"task": subtask}}) for subtask in subtasks]
    return {"role": "assistant", "content": "".join(f"<tool_call>{call}</tool_call>" for call in calls)}


def view(*messages: dict[str, Any], **facts: Any) -> TrajectoryView:
    return TrajectoryView(id=new_id(), run="walk", role="planner", tokens=1, messages=messages, facts=facts)


def call(index: Any, subtask: Any) -> TrajectoryView:
    return view(request={"index": index, "subtask": subtask})


def test_each_call_is_below_its_turn_in_the_order_of_the_calls() -> None:
    first, second, third, again = call(0, "a"), call(1, "b"), call(2, "c"), call(3, "a")
    planner = view(asks("b", "a"), {"role": "tool", "content": "x"}, asks("a", "c"))
    turns, loose = nested(planner, [again, third, second, first])
    assert [turn.calls for turn in turns] == [(second.id, first.id), (), (again.id, third.id)]
    assert loose == []


def test_of_very_many_turns_the_first_are_shown() -> None:
    messages = [{"role": "tool", "content": "x"}] * (TURNS + 2000)
    assert len(plain(messages[:TURNS])) == TURNS
    for turns in (plain(messages), nested(view(*messages), [])[0]):
        assert (len(turns), turns[-1].text) == (TURNS + 1, "2,000 more turns are not shown.")


def test_what_no_turn_asked_for_is_left_over_and_is_not_shown_twice() -> None:
    made, strange = call(0, "a"), call(1, "z")
    turns, loose = nested(view(asks("a", "a")), [made, strange])
    assert [turn.calls for turn in turns] == [(made.id,)]
    assert loose == [strange.id]


@pytest.mark.parametrize(
    "content",
    [
        "<tool_call>{</tool_call>",
        "<tool_call>" * 1000,
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
        '<tool_call>{"arguments": {"task": 3}}</tool_call><tool_call>[]</tool_call><tool_call>null</tool_call>',
        '<tool_call>{"arguments": []}</tool_call>',
        {"task": "a"},
        None,
    ],
)
def test_whatever_a_model_wrote_is_no_call_and_no_error(content: Any) -> None:
    odd = call("first", ["a"])
    turns, loose = nested(view({"role": "assistant", "content": content}), [odd])
    assert (len(turns), turns[0].calls, loose) == (1, (), [odd.id])


def test_so_many_calls_of_a_turn_are_looked_at() -> None:
    views = [call(index, str(index)) for index in range(CALLS + 1)]
    turns, loose = nested(view(asks(*map(str, range(CALLS + 1)))), views)
    assert (len(turns[0].calls), loose) == (CALLS, [views[-1].id])


def test_a_turn_is_cut_and_what_cannot_be_printed_is_replaced() -> None:
    turns = plain([{"role": "user", "content": "a\0b\x1b[31m\tc\n" + "x" * SHOWN}, {"role": "x" * 99}])
    assert turns[0].text.startswith("a\ufffdb\ufffd[31m\tc\nxx")
    assert (len(turns[0].text), turns[0].left_out) == (SHOWN, 11)
    assert (len(turns[1].role), turns[1].text) == (40, "null")
