"""Final slots on their way to the sync service: the rollout is stored first, with its report, and then submitted."""

from planner_server.rollout import Rollout
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas.rollout import RolloutItem, RolloutReport
from shared.serving.submitter import SETTLED, Submitter

RECOVER_S = 60.0


class Reports:
    """Takes over final slots. An aborted one has no trajectory: a restart tries its slot again."""

    def __init__(self, run: str, store: TrajectoryStore, submitter: Submitter[RolloutItem]) -> None:
        self._run = run
        self._store = store
        self._submitter = submitter

    async def report(self, rollout: str, report: RolloutReport, result: Rollout | None) -> None:
        """Store what there is, and submit."""
        facts = None
        if result is not None:
            trajectory = _trajectory(report, result)
            await self._store.put(trajectory)
            facts = trajectory.facts
        self._submitter.submit(RolloutItem(id=rollout, body=report), facts)

    async def recover(self) -> None:
        """Submit what a past process stored and the sync service never answered for, before slots are tried again."""
        for trajectory in await self._store.unreleased(self._run):
            if SETTLED not in trajectory.facts:
                report = RolloutReport.model_validate_json(trajectory.facts["report"])
                self._submitter.submit(RolloutItem(id=trajectory.id, body=report), trajectory.facts)
        await self._submitter.flush(RECOVER_S)


def _trajectory(report: RolloutReport, result: Rollout) -> Trajectory:
    episode = result.episode
    return Trajectory(
        id=result.id,
        run=report.run,
        role="planner",
        token_ids=episode.token_ids,
        mask=episode.mask,
        logprobs=episode.logprobs,
        version=episode.version,
        messages=episode.messages,
        facts={
            "report": report.model_dump_json(),
            "status": episode.status,
            "reason": episode.reason,
            "answer": episode.answer,
            "invocations": [name for name, _ in result.invocations],
        },
    )
