"""The text of a rollout as turns: under each turn of the planner the executor's calls that it made.

The text is a model's, so nothing in it is taken for true: what is read from it decides where a call is shown, no more.
A call that no turn fits is shown at the end.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.schemas.invocation import TrajectoryView

SHOWN = 20_000
"""Characters of one turn that a page shows."""
TURNS = 200
"""Turns of one trajectory that a page shows: a server may send any number of messages."""
CALLS = 64
"""Calls of one turn that are looked at."""
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, as it may be shown. `left_out`: characters beyond SHOWN. `calls`: ids of the invocations it made."""

    role: str
    text: str
    left_out: int = 0
    calls: tuple[str, ...] = ()


def plain(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The messages of one agent."""
    return [*(_turn(message) for message in messages[:TURNS]), *_cut(messages)]


def nested(planner: TrajectoryView, executors: Sequence[TrajectoryView]) -> tuple[list[Turn], list[str]]:
    """The planner's turns, each with the invocations that it made, and the ids of those that no turn fits.

    An invocation belongs to the first call, not taken yet, that asks for its subtask.
    """
    waiting = sorted(executors, key=_index)
    turns = []
    for message in planner.messages[:TURNS]:
        made: list[str] = []
        for subtask in _delegations(message):
            match = next((view for view in waiting if _subtask(view) == subtask), None)
            if match is not None:
                waiting.remove(match)
                made.append(match.id)
        turns.append(_turn(message, tuple(made)))
    return [*turns, *_cut(planner.messages)], [view.id for view in waiting]


def _cut(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """A turn that says how many are not shown, if there are more."""
    more = len(messages) - TURNS
    return [Turn("", f"{more:,} more turns are not shown.")] if more > 0 else []


def _turn(message: Mapping[str, Any], calls: tuple[str, ...] = ()) -> Turn:
    text = message.get("content")
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    shown = UNPRINTABLE.sub("\ufffd", text[:SHOWN])
    return Turn(str(message.get("role", ""))[:40], shown, len(text) - len(text[:SHOWN]), calls)


def _delegations(message: Mapping[str, Any]) -> Iterator[str]:
    """The subtasks that a turn asks for, in order."""
    text = message.get("content")
    if message.get("role") != "assistant" or not isinstance(text, str):
        return
    for part in text.split("<tool_call>", CALLS)[1:]:
        try:
            subtask = json.loads(part.partition("</tool_call>")[0])["arguments"]["task"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(subtask, str):
            yield subtask.encode("utf-8", "replace").decode().replace("\0", "\ufffd")  # as the planner server sends it


def _request(view: TrajectoryView) -> Mapping[str, Any]:
    request = view.facts.get("request")
    return request if isinstance(request, dict) else {}


def _subtask(view: TrajectoryView) -> object:
    return _request(view).get("subtask")


def _index(view: TrajectoryView) -> int:
    index = _request(view).get("index")
    return index if isinstance(index, int) else 0
