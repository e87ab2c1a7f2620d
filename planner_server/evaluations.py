"""Evaluations: n tasks of a split, one rollout each, on checkpoints that are named for both roles."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import structlog

from planner_server.evaluation import Evaluation, Outcome
from planner_server.rollout import Roller, Rollout
from shared.environments.base import Task
from shared.errors import BodyConflict, InvalidInput, NotFound, Overloaded, TandemError, Unavailable
from shared.http.lifespan import first
from shared.policy.types import SamplingParams
from shared.schemas.invocation import EvaluationPolicy, EvaluationRequest, EvaluationView

log = structlog.get_logger()

MOST_RUNNING = 64


class Evaluations:
    """Runs each evaluation once, beside the training, at most `places` rollouts at once over all of them.

    `hold` gives the folder of a named checkpoint, which stays until the evaluation's end. `one_policy`: the planner's
    checkpoint is that of the whole team.
    """

    def __init__(
        self,
        roller: Roller,
        hold: Callable[[str], AbstractContextManager[Path | None]],
        params: Callable[[float], SamplingParams],
        *,
        places: int,
        attempts: int,
        one_policy: bool = False,
    ) -> None:
        self._roller = roller
        self._hold = hold
        self._params = params
        self._at_once = places
        self._places = asyncio.Semaphore(places)
        self._attempts = attempts
        self._one_policy = one_policy
        self._known: dict[str, Evaluation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._untold: dict[str, float] = {}

    def start(self, name: str, request: EvaluationRequest) -> EvaluationView:
        """Start it, or say where it stands; BodyConflict for another request under its id, Overloaded: too many run.

        InvalidInput: it names a checkpoint of an executor that the team does not have.
        """
        if self._one_policy and request.executor_checkpoint not in ("live", request.planner_checkpoint):
            raise InvalidInput("executor_checkpoint: one policy is the whole team, so name the planner's, or none")
        known = self._known.get(name)
        if known is None:
            if len(self._tasks) >= MOST_RUNNING:
                raise Overloaded(f"{MOST_RUNNING} evaluations run already")
            held = ExitStack()
            checkpoint = held.enter_context(self._hold(request.planner_checkpoint))
            known = self._known[name] = Evaluation(name, request)
            task = asyncio.create_task(self._run(known, checkpoint), name=f"evaluation-{name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: held.close())
        if known.request != request:
            raise BodyConflict(f"evaluation {name} was asked for with another request")
        return known.view()

    def view(self, name: str) -> EvaluationView:
        """Where an evaluation stands; NotFound for one that this process has not been asked for."""
        if name not in self._known:
            raise NotFound(f"there is no evaluation {name}")
        return self._known[name].view()

    def accuracies(self) -> dict[str, float]:
        """`accuracy_<split>` of the last evaluation of each split that is done; each is told once."""
        told, self._untold = self._untold, {}
        return told

    async def close(self) -> None:
        """Cancel what runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, evaluation: Evaluation, checkpoint: Path | None) -> None:
        try:
            tasks = iter(range(evaluation.request.n))
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._at_once, evaluation.request.n)):
                    group.create_task(self._work(evaluation, tasks, checkpoint))
            evaluation.end()
            if (accuracy := evaluation.view().accuracy) is not None:
                self._untold[f"accuracy_{evaluation.request.split}"] = accuracy
        except* Exception as faults:  # noqa: BLE001 the outermost boundary: whatever failed, it ends and says so
            fault = first(faults)
            reason = fault.detail if isinstance(fault, TandemError) else repr(fault)
            log.error("evaluation-failed", id=evaluation.id, reason=reason)
            evaluation.end(reason)

    async def _work(self, evaluation: Evaluation, tasks: Iterator[int], checkpoint: Path | None) -> None:
        """One of those that share the evaluation's `tasks`: as many as there are places, not one for each task."""
        request = evaluation.request
        for place in tasks:
            async with self._places:
                task = self._roller.environment.task(request.split, request.seed, place)
                rollout = await self._attempt_until_done(task, request, checkpoint)
                evaluation.outcomes[place] = Outcome.of(task, rollout, text=place < request.transcripts)

    async def _attempt_until_done(self, task: Task, request: EvaluationRequest, checkpoint: Path | None) -> Rollout:
        policy = EvaluationPolicy(checkpoint=request.executor_checkpoint, temperature=request.temperature)
        params = self._params(request.temperature)
        fault = Unavailable()
        for _ in range(self._attempts):
            try:
                return await self._roller.roll_out(
                    task, request.split, params, checkpoint=checkpoint, evaluation=policy
                )
            except Unavailable as error:
                fault = error
        raise fault
