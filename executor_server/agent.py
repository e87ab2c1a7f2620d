"""One invocation: the executor's agent on the live weights or a checkpoint, its stored trajectory, its answer."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from executor_server.scoring import Scoring
from shared.agents.executor import ExecutorAgent, answer_of, trajectory_of
from shared.agents.loop import Episode
from shared.errors import BodyConflict
from shared.policy.store import TrajectoryStore
from shared.policy.types import SamplingParams
from shared.schemas.invocation import InvocationAnswer, InvocationRequest


@dataclass(frozen=True, slots=True)
class Agent:
    """What every invocation of this server shares. `hold`: the folder of a named checkpoint, which stays meanwhile."""

    executor: ExecutorAgent
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
        params = self.params(evaluation.temperature if evaluation else None)
        with self.hold(evaluation.checkpoint if evaluation else "live") as checkpoint:
            return await self.executor.run(request, params, checkpoint)

    async def keep(self, invocation: str, request: InvocationRequest, episode: Episode) -> InvocationAnswer:
        """Store the trajectory and have it scored; an evaluation is neither stored nor scored."""
        answer = answer_of(episode)
        if request.evaluation is None:
            trajectory = trajectory_of(invocation, request, episode, answer)
            await self.store.put(trajectory)
            self.scoring.start(trajectory)
        return answer
