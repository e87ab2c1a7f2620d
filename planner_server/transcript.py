"""One rollout of an evaluation as text, for people. The texts are a model's: whoever shows them must escape them."""

import json

from planner_server.rollout import Rollout
from shared.environments.base import Task, ToolCall
from shared.schemas.invocation import EXCERPT, CallTranscript, TaskTranscript


def transcript(task: Task, rollout: Rollout) -> TaskTranscript:
    """What was asked, what the planner called for and what came back, and what it answered."""
    answer = rollout.episode.answer
    return TaskTranscript(
        query=_excerpt(task.query),
        key=_excerpt(task.answer),
        calls=tuple(map(_call, rollout.episode.calls)),
        answer=None if answer is None else _excerpt(answer),
        correct=rollout.r_correct,
    )


def _call(call: ToolCall) -> CallTranscript:
    return CallTranscript(
        name=_excerpt(call.name),
        arguments=_excerpt(json.dumps(call.arguments, ensure_ascii=False)),
        state=call.result.state,
        result=_excerpt(call.result.content),
    )


def _excerpt(text: str) -> str:
    """The beginning of a text, as the wire takes it: a model may write what is no Unicode text."""
    return text[:EXCERPT].encode("utf-8", "replace").decode()
