"""What an environment is: tasks, the executor's tools, and two judgements. A user writes one in a short file.

    class Capitals(Environment):
        name = "capitals"

        def task(self, split, seed, index):
            return Task(id=f"{split}-{index}", query="What is the capital of France?", answer="Paris")

        @tool
        def lookup(self, context: ToolContext, country: str) -> str:
            "The article of a country."
            ...

        @reward("correctness")
        def same(self, task: Task, answer: str) -> float:
            return float(answer.strip() == task.answer)

        @reward("expert", weight=0.5)
        def looked_up(self, trace: Trace) -> float:
            return float(any(call.result.state == "ok" for call in trace.calls))

        @reward("expert", weight=0.5)
        def is_short(self, trace: Trace) -> float:
            return float(len(trace.answer) < 100)

Name it `package.module:Class`, or register it with an entry point in the group `tandem.environments`. Its tasks may
come from a JSONL file (jsonl.py). With a curriculum (shared/policy/warmup), `tandem warmup` teaches a model its format.
"""

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from shared.errors import UserError
from shared.schemas.base import Role

if TYPE_CHECKING:
    from shared.policy.warmup.curriculum import Curriculum

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
Team = Literal["pair", "single", "unified"]
"""`pair`: a planner, and an executor with the tools. `single`: one model with the tools, in the planner's place.
`unified`: one model in both roles."""
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


RewardKind = Literal["correctness", "expert"]


def reward(kind: RewardKind, weight: float = 1.0) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Mark a method as (part of) a reward in [0, 1]; the weights of each kind sum to 1.

    `correctness(self, task, answer)` judges the planner's answer, `expert(self, trace)` one invocation of the executor.
    """

    def mark(function: Callable[..., float]) -> Callable[..., float]:
        function.__tandem_reward__ = (kind, weight)  # ty: ignore[missing-attribute]
        return function

    return mark


class Environment(ABC):
    """Tasks, tools and judgements. Every method is a pure function of its arguments: a restart changes nothing."""

    name: ClassVar[str]
    describe_tools: bool = True
    """Whether the protocol and the tools are described in the system message; False where the model knows them."""
    team: Team = "pair"
    """Whose environment this is: what a role is told and taught may depend on it. Set by `of_team`."""

    def of_team(self, team: Team) -> Self:
        """The same environment as the models of `team` meet it; this one stays as it is."""
        other = copy.copy(self)
        other.team = team
        return other

    @abstractmethod
    def task(self, split: Split, seed: int, index: int) -> Task:
        """The task at place `index` of the endless order that `seed` gives; the same arguments, the same task."""

    def correctness(self, task: Task, answer: str) -> float:
        """r_correct in [0, 1] of the planner's answer: the weighted sum of the methods marked as such."""
        return sum(weight * judge(task, answer) for weight, judge in self._rewards("correctness"))

    def expert_score(self, trace: Trace) -> float:
        """r_expert in [0, 1] of one invocation, from its trace alone: the weighted sum of the marked methods."""
        return sum(weight * judge(trace) for weight, judge in self._rewards("expert"))

    def system_prompt(self, role: Role) -> str:
        """What each role is told first; the tools are described after it. A single model is the planner."""
        return ""

    def curriculum(self, role: Role) -> "Curriculum | None":
        """What `tandem warmup` teaches this role; None: there is no warm-up for it. A single model is the planner."""
        return None

    def tools(self) -> dict[str, Callable[..., Any]]:
        """The executor's tools by name: the bound methods marked with `tool`."""
        return {name: member for name, member in _members(self) if getattr(member, "__tandem_tool__", False)}

    def check(self) -> None:
        """UserError where a reward is missing, or the weights of its parts do not sum to 1."""
        for kind, method in (("correctness", "correctness"), ("expert", "expert_score")):
            if getattr(type(self), method) is not getattr(Environment, method):
                continue
            total = sum(weight for weight, _ in self._rewards(kind))
            if abs(total - 1) > 1e-9:
                fault = f"the weights of its {kind} rewards sum to {total:g}, not 1" if total else f"it has no {kind}"
                raise UserError(f"environment {self.name}: {fault}: mark methods with @reward({kind!r}, weight=...)")

    def _rewards(self, kind: str) -> list[tuple[float, Callable[..., float]]]:
        marked = [(getattr(member, "__tandem_reward__", None), member) for _, member in _members(self)]
        return [(mark[1], member) for mark, member in marked if mark and mark[0] == kind]


def _members(environment: Environment) -> list[tuple[str, Callable[..., Any]]]:
    return [(name, member) for name, member in inspect.getmembers(environment, inspect.ismethod)]
