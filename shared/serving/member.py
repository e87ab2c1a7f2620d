"""A server as a worker of its run: it waits for the run to be declared, and says what it is doing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from shared.client import SyncClient
from shared.errors import NotFound, Unavailable, UserError
from shared.http.problems import NO_SUCH_CALL
from shared.schemas import PolicyVersion, Role
from shared.schemas.run import RunSpec
from shared.schemas.stream import Heartbeat

log = structlog.get_logger()

POLL_S = 0.5
HEARTBEAT_S = 3.0
LAST_S = 1.0
"""How long the stop of a server may wait for its last heartbeat."""


@dataclass(slots=True)
class Member:
    """One worker. Loops write what they do into `doing`; `version` tells what the samplers hold."""

    sync: SyncClient
    run: str
    worker: str
    role: Role
    url: str
    device: str = "cpu"
    version: Callable[[], PolicyVersion | None] = lambda: None
    doing: dict[str, str] = field(default_factory=dict)
    draining: bool = False

    async def declared(self) -> RunSpec:
        """The run's spec, once somebody has declared it; the server serves meanwhile.

        UserError: what answers is no sync service, and never will know the run.
        """
        self.doing["run"] = "waiting for the run to be declared"
        while True:
            try:
                spec = (await self.sync.run(self.run)).spec
            except NotFound as error:
                if error.detail == NO_SUCH_CALL:
                    raise UserError("sync_url names another of our servers, which is no sync service") from None
                await asyncio.sleep(POLL_S)
            except Unavailable as error:
                log.warning("sync-unavailable", reason=error.detail)
            else:
                self.doing.pop("run")
                return spec

    def trains(self, spec: RunSpec, has_trainer: bool) -> bool:
        """Whether this worker's role trains in the run; UserError where it should and was started without a trainer."""
        trains = self.role in spec.trained_roles
        if trains and not has_trainer:
            raise UserError(f"run {self.run} trains the {self.role}, but this server was configured with trains=false")
        if not trains:
            self.doing["trainer"] = "this role does not train in this run"
        return trains

    async def heartbeats(self) -> None:
        """Consumes `doing`; waits HEARTBEAT_S; produces heartbeats, the last of which says that the server drains.

        A missed one is only a gap on the dashboard.
        """
        try:
            while True:
                await self._beat()
                await asyncio.sleep(HEARTBEAT_S)
        finally:
            self.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._beat()

    def drain(self) -> None:
        """The server was told to stop, or cannot go on: it takes no more work, and says so."""
        self.draining = True

    async def _beat(self) -> None:
        with suppress(NotFound, Unavailable):
            await self.sync.heartbeat(self.run, self.worker, self._heartbeat())

    def _heartbeat(self) -> Heartbeat:
        doing = "; ".join(f"{name}: {what}" for name, what in self.doing.items())[:500]
        return Heartbeat(
            role=self.role,
            url=self.url,
            device=self.device,
            version=self.version(),
            doing=doing,
            draining=self.draining,
        )
