"""One rollout: the planner works on a task, and may delegate any number of subtasks to the executor."""

import asyncio
import math
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from pydantic import ValidationError

from planner_server.executor import ExecutorClient
from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox
from shared.environments.base import Environment, Split, Task, ToolError, ToolResult
from shared.errors import PromptTooLong, UserError
from shared.ids import new_id
from shared.policy.types import Sampler, SamplingParams
from shared.schemas.invocation import EvaluationPolicy, InvocationAnswer, InvocationRequest

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt that came to its end: its episode, its correctness, and what the executor did, in order of calls."""

    id: str
    episode: Episode
    r_correct: float
    invocations: tuple[tuple[str, InvocationAnswer], ...]


@dataclass(slots=True)
class Delegations:
    """The invocations of one rollout, in order of calls: None where one has not been answered."""

    executor: ExecutorClient
    run: str
    rollout: str
    task: Task
    split: Split
    evaluation: EvaluationPolicy | None
    made: dict[str, InvocationAnswer | None] = field(default_factory=dict)

    async def invoke(self, subtask: str) -> InvocationAnswer:
        """One more invocation, under an id of its own, so that equal delegations stay apart."""
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
        answer = self.made[invocation] = await self.executor.invoke(invocation, request)
        return answer


async def delegate(context: Delegations, task: str) -> ToolResult:
    """Give a subtask to the executor, which has tools; its answer comes back."""
    try:
        answer = await context.invoke(task)
    except PromptTooLong:
        raise ToolError("The subtask is too long.") from None
    return ToolResult(answer.status, answer.answer)


DELEGATE = Toolbox({"delegate": delegate})


@dataclass(frozen=True, slots=True)
class Roller:
    """What every rollout of this server shares."""

    run: str
    environment: Environment
    sampler: Sampler
    chat: ChatFormat
    executor: ExecutorClient
    limits: Limits

    async def roll_out(
        self,
        task: Task,
        split: Split,
        params: SamplingParams,
        *,
        checkpoint: Path | None = None,
        evaluation: EvaluationPolicy | None = None,
    ) -> Rollout:
        """Work on `task` once; Unavailable where the executor or the sampler failed, which is nobody's reward.

        UserError names a task whose prompt leaves the planner no room for a turn.
        """
        rollout = new_id()
        delegations = Delegations(self.executor, self.run, rollout, task, split, evaluation)
        try:
            episode = await run_agent(
                self.sampler,
                self.chat,
                DELEGATE.bound(delegations),
                system=self.environment.system_prompt("planner"),
                user=task.query,
                limits=self.limits,
                params=params,
                checkpoint=checkpoint,
            )
        except PromptTooLong as error:
            raise UserError(f"task {task.id} does not fit limits.max_context_tokens: {error.detail}") from None
        answered = tuple((name, answer) for name, answer in delegations.made.items() if answer is not None)
        return Rollout(rollout, episode, await self._correctness(task, episode), answered)

    async def _correctness(self, task: Task, episode: Episode) -> float:
        """r_correct in [0, 1]; UserError names the environment where it is anything else."""
        if not episode.r_format or episode.answer is None:
            return 0.0
        try:
            value = await asyncio.to_thread(self.environment.correctness, task, episode.answer)
        except Exception as error:
            log.error("correctness-failed", environment=self.environment.name, task=task.id, exc_info=error)
            raise UserError(
                f"environment {self.environment.name}: correctness of task {task.id} raised {error!r}"
            ) from None
        if not (isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1):
            raise UserError(
                f"environment {self.environment.name}: correctness of task {task.id} is {value!r}; "
                "a reward is a finite number in [0, 1]"
            )
        return float(value)


def _plain(text: str) -> str:
    """Text of a model as the wire takes it: what is no Unicode text, and NUL, are replaced."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
