"""How far ahead the planner may work: the sync service says up to which step groups and attempts may start."""

import asyncio
import time

from shared.client import SyncClient
from shared.schemas.run import RunStatus

FRESH_S = 1.0
WAIT_S = 20.0
OPENING = frozenset({"declared", "running"})
ENDED = frozenset({"finished", "failed"})


class Horizon:
    """Asks for the run's status at most once a FRESH_S, however many slots want to start."""

    def __init__(self, sync: SyncClient, run: str) -> None:
        self._sync = sync
        self._run = run
        self._status: RunStatus | None = None
        self._asked = 0.0
        self._asking = asyncio.Lock()

    async def may_open(self, step: int) -> bool:
        """Waits until groups of `step` may be opened; false where the run opens nothing more."""
        while (status := await self._ask(step)).state not in OPENING or status.open_through < step:
            if status.state not in OPENING and status.state != "paused":
                return False
            await asyncio.sleep(FRESH_S)
        return True

    async def may_start(self, step: int) -> bool:
        """Waits until an attempt of a slot of `step` may start; false where the run has ended."""
        while (status := await self._fresh(step)).open_through < step or status.state == "paused":
            if status.state in ENDED:
                return False
            await asyncio.sleep(FRESH_S)
        return status.state not in ENDED

    async def _fresh(self, step: int) -> RunStatus:
        async with self._asking:
            if self._status is None or time.monotonic() - self._asked > FRESH_S:
                return await self._ask(None)
            return self._status

    async def _ask(self, step: int | None) -> RunStatus:
        """The status now; with `step`, the service holds the answer until that step may be opened."""
        wait_s = WAIT_S if step else 0.0
        self._status = await self._sync.status(self._run, open_step=step, wait_s=wait_s, counts=False)
        self._asked = time.monotonic()
        return self._status
