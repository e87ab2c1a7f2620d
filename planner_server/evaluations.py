"""Evaluations: n tasks of a split, one rollout each, on checkpoints that are named for both roles."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import structlog

from planner_server.rollout import Roller, Rollout
from shared.environments.base import Task
from shared.errors import BodyConflict, NotFound, TandemError, Unavailable
from shared.policy.types import SamplingParams
from shared.schemas.invocation import EvaluationPolicy, EvaluationRequest, EvaluationView
from shared.serving.lifespan import first

log = structlog.get_logger()


class Evaluations:
    """Runs each evaluation once, beside the training, at most `places` rollouts at once over all of them."""

    def __init__(
        self,
        roller: Roller,
        checkpoint_path: Callable[[str], Path | None],
        params: Callable[[float], SamplingParams],
        *,
        places: int,
        attempts: int,
    ) -> None:
        self._roller = roller
        self._checkpoint_path = checkpoint_path
        self._params = params
        self._places = asyncio.Semaphore(places)
        self._attempts = attempts
        self._known: dict[str, _Evaluation] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, request: EvaluationRequest) -> EvaluationView:
        """Start it, or say where it stands; BodyConflict for another request under its id."""
        known = self._known.get(name)
        if known is None:
            checkpoint = self._checkpoint_path(request.planner_checkpoint)
            known = self._known[name] = _Evaluation(name, request)
            task = asyncio.create_task(self._run(known, checkpoint), name=f"evaluation-{name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if known.request != request:
            raise BodyConflict(f"evaluation {name} was asked for with another request")
        return known.view()

    def view(self, name: str) -> EvaluationView:
        """Where an evaluation stands; NotFound for one that this process has not been asked for."""
        if name not in self._known:
            raise NotFound(f"there is no evaluation {name}")
        return self._known[name].view()

    async def close(self) -> None:
        """Cancel what runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, evaluation: "_Evaluation", checkpoint: Path | None) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for index in range(evaluation.request.n):
                    group.create_task(self._one(evaluation, index, checkpoint))
            evaluation.finish("done")
        except* Exception as faults:  # noqa: BLE001 an evaluation's outermost boundary: whatever failed, it ends and says so
            fault = first(faults)
            reason = fault.detail if isinstance(fault, TandemError) else repr(fault)
            log.error("evaluation-failed", id=evaluation.name, reason=reason)
            evaluation.finish("failed", reason)

    async def _one(self, evaluation: "_Evaluation", index: int, checkpoint: Path | None) -> None:
        request = evaluation.request
        async with self._places:
            task = self._roller.environment.task(request.split, request.seed, index)
            evaluation.done[index] = (task, await self._attempt(task, request, checkpoint))

    async def _attempt(self, task: Task, request: EvaluationRequest, checkpoint: Path | None) -> Rollout:
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


class _Evaluation:
    def __init__(self, name: str, request: EvaluationRequest) -> None:
        self.name = name
        self.request = request
        self.done: dict[int, tuple[Task, Rollout]] = {}
        self._started = time.monotonic()
        self._result: EvaluationView | None = None

    def view(self) -> EvaluationView:
        return self._result or EvaluationView(
            id=self.name, request=self.request, state="running", done=len(self.done), seconds=self._seconds()
        )

    def finish(self, state: str, reason: str | None = None) -> None:
        if state == "failed":
            self._result = EvaluationView(
                id=self.name,
                request=self.request,
                state="failed",
                done=len(self.done),
                reason=reason,
                seconds=self._seconds(),
            )
            return
        pairs = [self.done[index] for index in sorted(self.done)]
        rollouts = [rollout for _, rollout in pairs]
        formats = [answer.r_format for rollout in rollouts for _, answer in rollout.invocations]
        self._result = EvaluationView(
            id=self.name,
            request=self.request,
            state="done",
            done=len(pairs),
            correct=tuple(rollout.r_correct for rollout in rollouts),
            planner_format=tuple(rollout.episode.r_format for rollout in rollouts),
            calls=tuple(len(rollout.invocations) for rollout in rollouts),
            executor_format_rate=fmean(formats) if formats else None,
            accuracy=fmean(rollout.r_correct for rollout in rollouts),
            by_kind=_by_kind(pairs),
            seconds=self._seconds(),
        )

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def _by_kind(pairs: list[tuple[Task, Rollout]]) -> dict[str, float]:
    """Accuracy by the `kind` that tasks carry in their metadata."""
    kinds: defaultdict[str, list[float]] = defaultdict(list)
    for task, rollout in pairs:
        if "kind" in task.metadata:
            kinds[str(task.metadata["kind"])].append(rollout.r_correct)
    return {kind: fmean(values) for kind, values in sorted(kinds.items())}
