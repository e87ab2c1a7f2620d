"""Final slots on their way to the sync service: a rollout is stored together with its report, which is then sent."""

from dataclasses import asdict
from functools import partial

from planner_server.rollout import Rollout
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas.rollout import RolloutItem, RolloutReport
from shared.serving.submitter import Submitter

RECOVER_S = 60.0


class Reports:
    """Takes over final slots. An aborted one has no trajectory."""

    def __init__(self, store: TrajectoryStore, submitter: Submitter[RolloutItem]) -> None:
        self._store = store
        self._submitter = submitter

    async def report(self, rollout: str, report: RolloutReport, result: Rollout | None) -> None:
        """Store what there is, and submit."""
        write = partial(self._store.put, _trajectory(report, result)) if result is not None else None
        await self._submitter.submit(RolloutItem(id=rollout, body=report), write)

    async def recover(self) -> None:
        """Submit what a past process stored and the sync service never answered for, before slots are tried again."""
        await self._submitter.recover()
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
            "status": episode.status,
            "reason": episode.reason,
            "answer": episode.answer,
            "invocations": [name for name, _ in result.invocations],
            "sampling": asdict(episode.params),
        },
    )
