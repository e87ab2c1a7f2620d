"""One invocation, from its subtask to its stored trajectory: the tool loop, the format score, the answer."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from executor_server.scoring import Scoring
from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox, bounded
from shared.environments.base import Environment, ToolCall, ToolContext
from shared.errors import BodyConflict
from shared.policy.store import TrajectoryStore
from shared.policy.types import Sampler, SamplingParams, Trajectory
from shared.schemas.invocation import InvocationAnswer, InvocationRequest


@dataclass(frozen=True, slots=True)
class Agent:
    """What every invocation of this server shares. `hold`: the folder of a named checkpoint, which stays meanwhile."""

    environment: Environment
    sampler: Sampler
    chat: ChatFormat
    toolbox: Toolbox
    limits: Limits
    store: TrajectoryStore
    scoring: Scoring
    params: Callable[[float | None], SamplingParams]
    hold: Callable[[str], AbstractContextManager[Path | None]]

    async def recall(self, invocation: str, request: InvocationRequest) -> InvocationAnswer | None:
        """The stored answer; BodyConflict where it was given to another request."""
        stored = (await self.store.get([invocation])).get(invocation)
        if stored is None:
            return None
        if stored.facts["request"] != request.model_dump(mode="json"):
            raise BodyConflict(f"invocation {invocation} was finished with another request")
        return InvocationAnswer.model_validate(stored.facts["answer"])

    async def sample(self, request: InvocationRequest) -> Episode:
        """Run the tool loop on the live weights, or on the checkpoint that an evaluation names."""
        evaluation = request.evaluation
        context = ToolContext(split=request.split, task_id=request.task_id, subtask=request.subtask)
        with self.hold(evaluation.checkpoint if evaluation else "live") as checkpoint:
            return await run_agent(
                self.sampler,
                self.chat,
                self.toolbox.bound(context),
                system=self.environment.system_prompt("executor"),
                user=request.subtask,
                limits=self.limits,
                params=self.params(evaluation.temperature if evaluation else None),
                checkpoint=checkpoint,
            )

    async def keep(self, invocation: str, request: InvocationRequest, episode: Episode) -> InvocationAnswer:
        """Store the trajectory and have it scored; an evaluation is neither stored nor scored."""
        answer = _answer(episode)
        if request.evaluation is None:
            trajectory = _trajectory(invocation, request, episode, answer)
            await self.store.put(trajectory)
            self.scoring.start(trajectory)
        return answer


def _answer(episode: Episode) -> InvocationAnswer:
    """An invalid format is the policy's fault: its answer is empty, and its state `error`. A long answer is cut."""
    if not episode.r_format:
        return InvocationAnswer(status="error", answer="", r_format=0, turns=episode.turns)
    text = bounded(episode.answer or "")
    return InvocationAnswer(status=episode.status, answer=text, r_format=1, turns=episode.turns)


def _trajectory(invocation: str, request: InvocationRequest, episode: Episode, answer: InvocationAnswer) -> Trajectory:
    facts: dict[str, Any] = {
        "request": request.model_dump(mode="json"),
        "answer": answer.model_dump(mode="json"),
        "reason": episode.reason,
        "calls": [_call(call) for call in episode.calls],
        "sampling": asdict(episode.params),
    }
    return Trajectory(
        id=invocation,
        run=request.run,
        role="executor",
        token_ids=episode.token_ids,
        mask=episode.mask,
        logprobs=episode.logprobs,
        version=episode.version,
        messages=episode.messages,
        facts=facts,
    )


def _call(call: ToolCall) -> dict[str, Any]:
    result = {"state": call.result.state, "content": call.result.content}
    return {"name": call.name, "arguments": call.arguments, "result": result}
