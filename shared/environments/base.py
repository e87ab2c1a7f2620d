"""What an environment is: tasks, the executor's tools, and two judgements. A user writes one in a short file.

    class Capitals(Environment):
        name = "capitals"

        def task(self, split, seed, index):
            return Task(id=f"{split}-{index}", query="What is the capital of France?", answer="Paris")

        @tool
        def lookup(self, context: ToolContext, country: str) -> str:
            "The article of a country."
            ...

        def correctness(self, task, answer):
            return float(answer.strip() == task.answer)

        def expert_score(self, trace):
            return float(any(call.result.state == "ok" for call in trace.calls))

Register it with an entry point in the group `tandem.environments`, or name it `package.module:Class`.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from shared.schemas.base import Role

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
ResultState = Literal["ok", "error", "timeout", "limit"]


@dataclass(frozen=True, slots=True)
class Task:
    """One query with its answer key; `metadata` is for reports (number of hops, say)."""

    id: str
    query: str
    answer: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call it serves."""

    split: Split
    task_id: str
    subtask: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call came to; the model sees both the state and the content."""

    state: ResultState
    content: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model made, with its result."""

    name: str
    arguments: dict[str, Any]
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Trace:
    """All that the expert sees of one invocation: never the rollout's outcome."""

    subtask: str
    calls: tuple[ToolCall, ...]
    answer: str
    split: Split = "train"


class ToolError(Exception):
    """Raised by a tool: the model sees state `error` and this message."""


def tool(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method as a tool of the executor: its docstring describes it, its parameters are typed."""
    function.__tandem_tool__ = True  # ty: ignore[missing-attribute]
    return function


class Environment(ABC):
    """Tasks, tools and judgements. Every method is a pure function of its arguments: a restart changes nothing."""

    name: ClassVar[str]
    describe_tools: ClassVar[bool] = True
    """Whether the protocol and the tools are described in the system message; False where the model knows them."""

    @abstractmethod
    def task(self, split: Split, seed: int, index: int) -> Task:
        """The task at place `index` of the endless order that `seed` gives; the same arguments, the same task."""

    @abstractmethod
    def correctness(self, task: Task, answer: str) -> float:
        """r_correct in [0, 1] of the planner's answer."""

    @abstractmethod
    def expert_score(self, trace: Trace) -> float:
        """r_expert in [0, 1] of one invocation, from its trace alone."""

    def system_prompt(self, role: Role) -> str:
        """What each role is told first; the tools are described after it."""
        return ""

    def tools(self) -> dict[str, Callable[..., Any]]:
        """The executor's tools by name: the bound methods marked with `tool`."""
        members = inspect.getmembers(self, callable)
        return {name: member for name, member in members if getattr(member, "__tandem_tool__", False)}
