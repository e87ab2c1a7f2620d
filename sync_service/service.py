"""What every route needs: the database and the doorbell, and what this process gathers, feeds and counts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.http.guard import acting
from shared.schemas.rollout import GroupItem, RolloutItem, TrajectoryItem
from sync_service.config import SyncConfig
from sync_service.database import Database
from sync_service.doorbell import Doorbell
from sync_service.feed import Feed
from sync_service.gather import Gatherer
from sync_service.metrics import SyncMetrics
from sync_service.operations import groups, rollouts, trajectories
from sync_service.owner import Owners, read_key
from sync_service.traffic import Traffic

T = TypeVar("T")


class Service:
    """One process of the sync service."""

    def __init__(self, config: SyncConfig, database: Database, doorbell: Doorbell) -> None:
        self.config = config
        self.database = database
        self.urgent = Database(config.database_url, config.reserved_connections)
        """Connections of their own for what must come in time: heartbeats, renewals, acks, health."""
        self.doorbell = doorbell
        self.metrics = SyncMetrics(config.disk_folder)
        self.feed = Feed(database, doorbell, self.metrics, config.event_streams_per_key)
        self.groups = Gatherer(self.open_groups)
        self.rollouts = Gatherer(self.submit_rollouts)
        self.trajectories = Gatherer(self.submit_trajectories)
        self.traffic = Traffic(database, self.metrics)
        self.owners = Owners(read_key(config.text_key_file) if config.text_key_file else None)

    async def open_groups(self, items: Sequence[GroupItem]) -> list[groups.Outcome]:
        """Open groups, in one transaction; what became of each."""
        return await self.database.transaction(lambda connection: groups.open_groups(connection, items))

    async def submit_rollouts(self, items: Sequence[RolloutItem]) -> list[rollouts.Outcome]:
        """Record rollouts, in one transaction; what became of each."""
        outcomes, moved = await self.database.transaction(lambda connection: rollouts.submit(connection, items))
        self.doorbell.ring(moved)
        return outcomes

    async def submit_trajectories(self, items: Sequence[TrajectoryItem]) -> list[rollouts.Outcome]:
        """Record scores, in one transaction; what became of each."""
        outcomes, moved = await self.database.transaction(lambda connection: trajectories.submit(connection, items))
        self.doorbell.ring(moved)
        return outcomes

    async def write(self, run: str, work: Callable[[AsyncConnection], Awaitable[T]], *, urgent: bool = False) -> T:
        """`work` in one transaction; after its commit, whoever waits in `run` looks again."""
        result = await (self.urgent if urgent else self.database).transaction(work)
        self.doorbell.ring([run])
        return result

    async def hold(self, run: str, look: Callable[[], Awaitable[T | None]], wait_s: float) -> T | None:
        """The first thing that `look` finds, looked for at once and then at each ring, for up to `wait_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        with self.doorbell.listening(run) as waiter, self.metrics.waits.track_inprogress():
            while True:
                waiter.clear()
                found = await look()
                left = deadline - loop.time()
                if found is not None or left <= 0 or self.doorbell.stopping:
                    return found
                await waiter.wait(left)

    async def refresh_metrics(self) -> None:
        """Bring up to date what is read when somebody asks for the metrics."""
        self.metrics.configured.set(self.config.redis_url is not None)
        self.metrics.doorbell.set(self.doorbell.connected)
        for name, database in {"bulk": self.database, "urgent": self.urgent}.items():
            self.metrics.pool.labels(name).set(database.in_use)
        await self.metrics.read(self.urgent)


async def _service(request: Request) -> Service:  # async: a plain function would be run in a thread
    return request.app.state.service


async def _actor(request: Request) -> str | None:
    key = acting(request)
    return key.key if key else None


Here = Annotated[Service, Depends(_service)]
"""A route's parameter."""
Actor = Annotated[str | None, Depends(_actor)]
"""The id of the key that acts, for the audit; None in the loopback mode."""
