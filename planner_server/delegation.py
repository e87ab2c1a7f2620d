"""The tool `delegate`: a subtask goes to the executor, and its answer comes back.

Who the executor is depends on the team (team.py): another server, or this server's own policy.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from shared.agents.loop import Episode
from shared.agents.toolbox import Toolbox
from shared.environments.base import Split, Task, ToolError, ToolResult
from shared.errors import PromptTooLong
from shared.ids import new_id
from shared.policy.types import SamplingParams
from shared.schemas.invocation import EvaluationPolicy, InvocationAnswer, InvocationRequest

Answered = tuple[InvocationAnswer, Episode | None]
"""What came back, and the episode where this server's own policy did the work."""


class Executor(Protocol):
    """Who answers delegations."""

    async def answer(
        self, invocation: str, request: InvocationRequest, params: SamplingParams, checkpoint: Path | None
    ) -> Answered:
        """The answer; PromptTooLong for a subtask that is too long, Unavailable where the executor failed.

        `params` and `checkpoint` are the planner's own, for an executor that is the same policy.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delegation:
    """One that was answered. `episode`: where this server's own policy did the work."""

    id: str
    request: InvocationRequest
    answer: InvocationAnswer
    episode: Episode | None = None


@dataclass(slots=True)
class Delegations:
    """Those of one rollout, in order of calls: None where one has not been answered."""

    executor: Executor
    run: str
    rollout: str
    task: Task
    split: Split
    evaluation: EvaluationPolicy | None
    params: SamplingParams
    checkpoint: Path | None
    made: dict[str, Delegation | None] = field(default_factory=dict)

    @property
    def answered(self) -> tuple[Delegation, ...]:
        """Those that came to an answer."""
        return tuple(delegation for delegation in self.made.values() if delegation is not None)

    async def invoke(self, subtask: str) -> InvocationAnswer:
        """One more, under an id of its own, so that equal delegations stay apart."""
        invocation, index = new_id(), len(self.made)
        self.made[invocation] = None
        try:
            request = InvocationRequest(
                run=self.run,
                rollout=self.rollout,
                index=index,
                subtask=_plain(subtask),
                task_id=self.task.id,
                split=self.split,
                evaluation=self.evaluation,
            )
        except ValidationError:  # the rest is ours, and valid
            raise PromptTooLong from None
        answer, episode = await self.executor.answer(invocation, request, self.params, self.checkpoint)
        self.made[invocation] = Delegation(invocation, request, answer, episode)
        return answer


async def delegate(context: Delegations, task: str) -> ToolResult:
    """Give a subtask to the executor, which has tools; its answer comes back."""
    try:
        answer = await context.invoke(task)
    except PromptTooLong:
        raise ToolError("The subtask is too long.") from None
    return ToolResult(answer.status, answer.answer)


DELEGATE = Toolbox({"delegate": delegate})


def _plain(text: str) -> str:
    """Text of a model as the wire takes it: what is no Unicode text, and NUL, are replaced."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
