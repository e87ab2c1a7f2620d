"""The executor as an agent: one delegation, from its subtask to its episode, its answer and its trajectory.

A pair's executor server runs it, and so does a planner server whose one policy delegates to itself.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox, bounded
from shared.environments.base import Environment, ToolCall, ToolContext
from shared.policy.types import Sampler, SamplingParams, Trajectory
from shared.schemas.invocation import InvocationAnswer, InvocationRequest


@dataclass(frozen=True, slots=True)
class ExecutorAgent:
    """What every delegation shares. `toolbox` has the environment's tools, and `chat` describes them."""

    environment: Environment
    sampler: Sampler
    chat: ChatFormat
    toolbox: Toolbox
    limits: Limits

    async def run(self, request: InvocationRequest, params: SamplingParams, checkpoint: Path | None) -> Episode:
        """Run the tool loop on the live weights, or on a checkpoint; what `run_agent` raises passes through."""
        context = ToolContext(split=request.split, task_id=request.task_id, subtask=request.subtask)
        return await run_agent(
            self.sampler,
            self.chat,
            self.toolbox.bound(context),
            system=self.environment.system_prompt("executor"),
            user=request.subtask,
            limits=self.limits,
            params=replace(params, max_new_tokens=self.limits.max_new_tokens),
            checkpoint=checkpoint,
        )


def answer_of(episode: Episode) -> InvocationAnswer:
    """An invalid format is the policy's fault: its answer is empty, and its state `error`. A long answer is cut."""
    if not episode.r_format:
        return InvocationAnswer(status="error", answer="", r_format=0, turns=episode.turns)
    text = bounded(episode.answer or "")
    return InvocationAnswer(status=episode.status, answer=text, r_format=1, turns=episode.turns)


def trajectory_of(
    invocation: str, request: InvocationRequest, episode: Episode, answer: InvocationAnswer
) -> Trajectory:
    """The episode as it is stored, with what is known of the delegation."""
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
