"""When a checkpoint is due, and what it lets go of."""

import structlog

from shared.policy.policy import Policy
from shared.schemas.run import RunSpec
from shared.schemas.stream import Ack

log = structlog.get_logger()


class Saver:
    """Saves every `every` steps and at the run's last one; then the trajectories that nobody needs may be purged.

    Those are the ones of the steps behind, and whatever is too stale for all steps to come: attempts that were given
    up leave trajectories that no batch ever names.
    """

    def __init__(self, policy: Policy, run: str, spec: RunSpec, *, every: int) -> None:
        self._policy = policy
        self._run = run
        self._spec = spec
        self._every = every
        self._last: Ack | None = None
        self._behind: set[str] = set()

    async def save_if_due(self, ack: Ack) -> None:
        """After the update and before the ack, which the checkpoint holds: so it is never lost."""
        self._last = ack
        self._behind.update(ack.fates)
        if ack.step % self._every == 0 or ack.step == self._spec.steps:
            await self._save(ack)

    async def save_last(self) -> None:
        """At the end of a stream that was drained before its last step.

        Not where that step was lost, and the weights are those of an earlier checkpoint again.
        """
        if self._last is not None and self._last.step == self._policy.step:
            await self._save(self._last)

    async def _save(self, ack: Ack) -> None:
        checkpoint = await self._policy.save(ack.step, ack)
        self._last = None
        await self._policy.store.release(self._behind)
        await self._policy.store.release_before(self._run, checkpoint.updates - self._spec.staleness)
        self._behind.clear()
        log.info("checkpoint-saved", name=checkpoint.name, updates=checkpoint.updates)
