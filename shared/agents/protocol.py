"""The action protocol, one for both roles. A turn is: optional thinking, then calls or the final answer, nothing else.

    <think>...</think>
    <tool_call>{"name": "search", "arguments": {"query": "Paris"}}</tool_call>     one or more
    <answer>...</answer>                                                           or this, once

A result comes back as `<tool_response state="ok">...</tool_response>`; its states are ok, error, timeout and limit.
`parse` never raises, whatever the text: what is no action is a `Violation` with a reason code, and r_format 0.
"""

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from shared.environments.base import ToolResult

CALL, CALL_END = "<tool_call>", "</tool_call>"
ANSWER, ANSWER_END = "<answer>", "</answer>"
THINK, THINK_END = "<think>", "</think>"
RESPONSE, RESPONSE_END = "<tool_response", "</tool_response>"
TAGS = (CALL, CALL_END, ANSWER, ANSWER_END, THINK, THINK_END, RESPONSE, RESPONSE_END)
MAX_NESTING = 32
"""Levels of JSON in a call's arguments; what nests deeper would break whoever writes it down again."""


class Reason(StrEnum):
    """Every reason code of an episode: why a turn is no valid action, and which limit was met."""

    NO_ACTION = "no-action"
    STRAY_TEXT = "stray-text"
    UNCLOSED_THINKING = "unclosed-thinking"
    UNCLOSED_CALL = "unclosed-call"
    UNCLOSED_ANSWER = "unclosed-answer"
    MALFORMED_CALL = "malformed-call"
    CALL_AND_ANSWER = "call-and-answer"
    SEVERAL_ANSWERS = "several-answers"
    EMPTY_ANSWER = "empty-answer"
    NESTED_TAGS = "nested-tags"
    NOT_UNICODE = "not-unicode"
    TURN_CUT_OFF = "turn-cut-off"
    TURN_LIMIT = "turn-limit"
    CALL_LIMIT = "call-limit"
    CONTEXT_LIMIT = "context-limit"
    TIME_LIMIT = "time-limit"
    LIMIT_IGNORED = "limit-ignored"


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the model wrote it; whether there is such a tool is for the toolbox to say."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Calls:
    """A turn that calls tools, at least one."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A turn that ends the episode; the text without surrounding blanks, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A turn that is no action."""

    reason: Reason


Action = Calls | Answer | Violation


def parse(text: str) -> Action:
    """The action that the text of one turn is. Never raises."""
    if not _is_unicode(text):
        return Violation(Reason.NOT_UNICODE)
    rest = text.strip()
    if rest.startswith(THINK):
        _, closed, rest = rest.partition(THINK_END)
        if not closed:
            return Violation(Reason.UNCLOSED_THINKING)
        rest = rest.lstrip()
    if rest.startswith(ANSWER):
        return _answer(rest)
    if rest.startswith(CALL):
        return _calls(rest)
    return Violation(Reason.STRAY_TEXT if any(tag in rest for tag in TAGS) else Reason.NO_ACTION)


def _answer(rest: str) -> Action:
    content, closed, tail = rest.removeprefix(ANSWER).partition(ANSWER_END)
    if not closed:
        return Violation(Reason.UNCLOSED_ANSWER)
    if any(tag in content for tag in TAGS):
        return Violation(Reason.NESTED_TAGS)
    if tail.strip():
        return Violation(_surplus(tail))
    return Answer(content.strip()) if content.strip() else Violation(Reason.EMPTY_ANSWER)


def _surplus(tail: str) -> Reason:
    if CALL in tail:
        return Reason.CALL_AND_ANSWER
    return Reason.SEVERAL_ANSWERS if ANSWER in tail else Reason.STRAY_TEXT


def _calls(rest: str) -> Action:
    calls = []
    while rest.startswith(CALL):
        body = rest.removeprefix(CALL).lstrip()
        if CALL_END not in body:
            return Violation(Reason.UNCLOSED_CALL)
        try:
            value, end = _JSON.raw_decode(body)
        except (ValueError, RecursionError):
            return Violation(Reason.MALFORMED_CALL)
        call, rest = _call(value), body[end:].lstrip()
        if call is None or not rest.startswith(CALL_END):
            return Violation(Reason.MALFORMED_CALL)
        calls.append(call)
        rest = rest.removeprefix(CALL_END).lstrip()
    if rest:
        return Violation(Reason.CALL_AND_ANSWER if ANSWER in rest else Reason.STRAY_TEXT)
    return Calls(tuple(calls))


def _call(value: Any) -> Call | None:
    """The call, if `value` is exactly {"name": string, "arguments": object} of text that can be written down again."""
    if not isinstance(value, dict) or value.keys() != {"name", "arguments"}:
        return None
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not name or not isinstance(arguments, dict) or not _shallow(value, MAX_NESTING):
        return None
    return Call(name, arguments) if _is_unicode(json.dumps(value, ensure_ascii=False)) else None


def _shallow(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(child, levels - 1) for child in children)


def _is_unicode(text: str) -> bool:
    """False for a lone surrogate, which JSON can spell and no encoder, database or tokenizer can take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits)


_JSON = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def render_call(call: Call) -> str:
    """The text of a call, as `parse` reads it."""
    arguments = {"name": call.name, "arguments": call.arguments}
    return f"{CALL}{json.dumps(arguments, ensure_ascii=False)}{CALL_END}"


def render_answer(text: str) -> str:
    """The text of a final answer."""
    return f"{ANSWER}{text}{ANSWER_END}"


def render_result(result: ToolResult) -> str:
    """The text of a result: `&` and `<` of its content are escaped, so nothing in it can close or open a tag."""
    content = result.content.replace("&", "&amp;").replace("<", "&lt;")
    return f'{RESPONSE} state="{result.state}">{content}{RESPONSE_END}'
