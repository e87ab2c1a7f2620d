"""One rollout: the planner works on a task, and may delegate any number of subtasks; or it has the tools itself."""

import asyncio
import math
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from planner_server.delegation import Delegation, Delegations, Executor
from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox
from shared.environments.base import Environment, Split, Task, ToolContext
from shared.errors import PromptTooLong, UserError
from shared.ids import new_id
from shared.policy.types import Sampler, SamplingParams
from shared.schemas.base import PolicyVersion
from shared.schemas.invocation import EvaluationPolicy

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt that came to its end: its episode, its correctness, and its delegations, in order of calls.

    `calls`: delegations; of a model that has the tools itself, calls that were run. `seconds`: that the episode took.
    """

    id: str
    episode: Episode
    r_correct: float
    calls: int
    seconds: float
    delegations: tuple[Delegation, ...] = ()

    @property
    def episodes(self) -> list[Episode]:
        """All that this server's policy sampled: the planner's, then those of delegations that it answered itself."""
        return [self.episode, *(d.episode for d in self.delegations if d.episode is not None)]

    @property
    def tokens(self) -> int:
        """Of all its episodes, sampled or not."""
        return sum(len(episode.token_ids) for episode in self.episodes)

    @property
    def version(self) -> PolicyVersion:
        """That of the oldest token of all its episodes."""
        return min((episode.version for episode in self.episodes), key=lambda version: version.updates)


@dataclass(frozen=True, slots=True)
class Roller:
    """What every rollout of this server shares. `executor` None: nobody answers delegations, as `toolbox` has none."""

    run: str
    environment: Environment
    sampler: Sampler
    chat: ChatFormat
    toolbox: Toolbox
    executor: Executor | None
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
        rollout, made, started = new_id(), None, time.monotonic()
        if self.executor:
            made = Delegations(self.executor, self.run, rollout, task, split, evaluation, params, checkpoint)
        context = made or ToolContext(split=split, task_id=task.id, subtask=task.query)
        try:
            episode = await run_agent(
                self.sampler,
                self.chat,
                self.toolbox.bound(context),
                system=self.environment.system_prompt("planner"),
                user=task.query,
                limits=self.limits,
                params=params,
                checkpoint=checkpoint,
            )
        except PromptTooLong as error:
            raise UserError(f"task {task.id} does not fit limits.max_context_tokens: {error.detail}") from None
        seconds = time.monotonic() - started
        correct = await self._correctness(task, episode)
        if made is None:
            ran = sum(call.result.state != "limit" for call in episode.calls)
            return Rollout(rollout, episode, correct, ran, seconds)
        return Rollout(rollout, episode, correct, len(made.answered), seconds, made.answered)

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
