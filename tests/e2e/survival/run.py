"""The recorded run, trained to its end under fire or without, and what is left of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from shared.client import SyncClient
from shared.schemas import Role
from shared.schemas.run import RunStatus
from shared.schemas.stream import StepStatistics
from sync_service import migrate
from tests.e2e.survival.orders import STEPS, Order
from tests.e2e.survival.processes import PATIENCE_S, SyncService, TrainingServer
from tests.e2e.survival.recorded import RUN, record
from tests.waiting import until

SEED = 3
TIMED = {"seconds", "tokens_per_second"}
"""Statistics of the clock: no two runs have the same."""


@dataclass
class Ended:
    """One role at its end: the last checkpoint's tensors, its acked steps, and how often each step was trained."""

    steps: list[StepStatistics]
    files: dict[str, bytes]
    updates: list[int]

    @property
    def statistics(self) -> list[dict[str, Any]]:
        """Those of every step, but for the clock's."""
        return [
            {"step": s.step, "outcome": s.outcome, "updates": s.updates, "histograms": s.histograms}
            | {name: value for name, value in s.statistics.items() if name not in TIMED}
            for s in self.steps
        ]


async def train(
    folder: Path, database_url: str, kills: Mapping[Role, Sequence[Order]]
) -> tuple[RunStatus, dict[Role, Ended]]:
    """Train the recorded run into fresh models of the roles of `kills`, killed as these say."""
    recorded = record(SEED)
    sync = SyncService(folder, database_url)
    servers = [TrainingServer(role, folder, sync) for role in kills]
    try:
        async with SyncClient(sync.url, retry_for_s=PATIENCE_S) as client:
            await recorded.submit(client, tuple(kills))
            async with asyncio.TaskGroup() as running:
                for server in servers:
                    await recorded.store(server.role, server.folder)
                    running.create_task(server.run(kills[server.role]))

            async def finished() -> bool:
                return (await client.status(RUN)).state == "finished"

            await until(finished, PATIENCE_S)
            steps = await client.steps(RUN)
            return await client.status(RUN), {server.role: _ended(server, steps) for server in servers}
    finally:
        for process in (*servers, sync):
            await asyncio.to_thread(process.stop)


def _ended(server: TrainingServer, steps: list[StepStatistics]) -> Ended:
    last = server.folder / "checkpoints" / f"step-{STEPS}"
    return Ended(
        steps=[step for step in steps if step.role == server.role],
        files={file.name: file.read_bytes() for file in last.glob("*.safetensors")},
        updates=[int(line) for line in (server.folder / "updates").read_text().split()],
    )


def database_of_its_own(url: str, name: str) -> str:
    """A migrated database on the Postgres of `url`."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    own = f"{url.rpartition('/')[0]}/{name}"
    migrate.upgrade(own)
    return own
