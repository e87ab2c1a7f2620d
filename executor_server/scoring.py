"""From a stored trajectory to its submitted score, in the background: nobody who asked for an answer waits for it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from executor_server.judge import expert_score
from shared.environments.base import Environment, ToolCall, ToolResult, Trace
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas.rollout import TrajectoryItem, TrajectoryReport
from shared.schemas.run import RunSpec
from shared.serving.submitter import Submitter

JUDGE_FAILED = "judge-failed"
SCORE = "r_expert"
"""The fact that is there once a trajectory is judged; written together with its report."""
JUDGEMENTS_AT_ONCE = 32
"""Threads of the judge. They are its own: a slow judge must not take the threads in which the tools run."""


class Scoring:
    """Scores what it is given. `spec` is there once the run is declared: its score deadline bounds each judgement."""

    def __init__(
        self,
        environment: Environment,
        store: TrajectoryStore,
        submitter: Submitter[TrajectoryItem],
        spec: asyncio.Future[RunSpec],
    ) -> None:
        self._environment = environment
        self._store = store
        self._submitter = submitter
        self._spec = spec
        self.waiting = 0
        """Stored trajectories that are not judged and reported yet."""
        self._arrived: asyncio.Queue[Trajectory] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(JUDGEMENTS_AT_ONCE, thread_name_prefix="judge")

    def start(self, trajectory: Trajectory) -> None:
        """Take over a stored trajectory."""
        self.waiting += 1
        self._arrived.put_nowait(trajectory)

    async def run(self) -> None:
        """Consumes stored trajectories; waits for the run's spec, then for the next one; produces reports.

        A judgement of its own for each; the first that finds a mistake in the environment ends the loop.
        """
        spec = await self._spec
        async with asyncio.TaskGroup() as judgements:
            while True:
                judgements.create_task(self._score(await self._arrived.get(), spec))

    def close(self) -> None:
        """Ask the judge nothing more; one that still thinks is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def recover(self, run: str) -> None:
        """Report what a past process scored and the sync service never answered for; score what it only stored."""
        await self._submitter.recover()
        for trajectory in await self._store.unreleased(run):
            if SCORE not in trajectory.facts:
                self.start(trajectory)

    async def _score(self, trajectory: Trajectory, spec: RunSpec) -> None:
        r_format, r_expert = trajectory.facts["answer"]["r_format"], None
        if r_format:
            trace = _trace(trajectory)
            r_expert = await expert_score(self._environment, trajectory.id, trace, spec.score_deadline_s, self._threads)
        report = _report(trajectory, r_format, r_expert)
        write = partial(self._store.set_facts, trajectory.id, trajectory.facts | {SCORE: r_expert})
        await self._submitter.submit(TrajectoryItem(id=trajectory.id, body=report), write)
        self.waiting -= 1


def _report(trajectory: Trajectory, r_format: int, r_expert: float | None) -> TrajectoryReport:
    judged = r_expert is not None or not r_format
    return TrajectoryReport(
        run=trajectory.run,
        rollout=trajectory.facts["request"]["rollout"],
        status="scored" if judged else "unscored",
        reason=None if judged else JUDGE_FAILED,
        r_format=r_format,
        r_expert=r_expert,
        tokens=len(trajectory.token_ids),
        version=trajectory.version,
    )


def _trace(trajectory: Trajectory) -> Trace:
    """What the judge sees: the invocation alone, never the rollout's outcome."""
    request, answer = trajectory.facts["request"], trajectory.facts["answer"]
    calls = (ToolCall(c["name"], c["arguments"], ToolResult(**c["result"])) for c in trajectory.facts["calls"])
    return Trace(subtask=request["subtask"], calls=tuple(calls), answer=answer["answer"], split=request["split"])
