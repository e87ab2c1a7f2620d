"""Final slots on their way to the sync service: a rollout is stored together with its report, which is then sent."""

from dataclasses import asdict
from functools import partial

from planner_server.rollout import Rollout
from shared.agents.executor import trajectory_of
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas.invocation import PARTS
from shared.schemas.rollout import RolloutItem, RolloutReport
from shared.serving.submitter import Submitter

RECOVER_S = 60.0


class Reports:
    """Takes over final slots. An aborted one has no trajectory."""

    def __init__(self, store: TrajectoryStore, submitter: Submitter[RolloutItem]) -> None:
        self._store = store
        self._submitter = submitter

    async def report(self, rollout: str, report: RolloutReport, result: Rollout | None) -> None:
        """Store what there is, a rollout's delegations that were answered here with it, and submit."""
        write = None
        if result is not None:
            parts = _parts(result)
            write = partial(self._store.put, _trajectory(report, result, parts), parts=parts)
        await self._submitter.submit(RolloutItem(id=rollout, body=report), write)

    async def recover(self) -> None:
        """Submit what a past process stored and the sync service never answered for, before slots are tried again."""
        await self._submitter.recover()
        await self._submitter.flush(RECOVER_S)


def _trajectory(report: RolloutReport, result: Rollout, parts: list[Trajectory]) -> Trajectory:
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
            "calls": result.calls,
            "invocations": [delegation.id for delegation in result.delegations],
            PARTS: [part.id for part in parts],
            "sampling": asdict(episode.params),
        },
    )


def _parts(result: Rollout) -> list[Trajectory]:
    """What this server's own policy did below the planner: trained with it, and known to nobody else."""
    return [trajectory_of(d.id, d.request, d.episode, d.answer) for d in result.delegations if d.episode is not None]
