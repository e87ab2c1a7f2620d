"""A client process under fire: `python -m tests.faults.client planner --url URL --run RUN --folder FOLDER`.

The planner's side opens groups and reports rollouts; the executor's side submits scores, half of them before their
rollouts; both train their stream. Killed and started again, it goes on from what the service says.
"""

import argparse
import asyncio
import os
from pathlib import Path
from typing import cast

from shared.client import SyncClient
from shared.http.serve import configure_logs
from shared.schemas import Role
from tests.faults.executor_load import score
from tests.faults.ledger import Ledger
from tests.faults.planner_load import roll
from tests.faults.recording import RecordingClient
from tests.faults.trainer import train
from tests.faults.weights import ToyWeights

KEY = "TANDEM_FAULTS_KEY"
"""The environment variable with the client's key."""
TIMEOUT_S = 3.0
"""How long an answer may take: a half-open connection is given up after it."""
RETRY_FOR_S = 120.0
"""Longer than any outage that the harness makes."""


async def main(role: Role, url: str, run: str, folder: Path) -> None:
    """Load and training at once, until the run is finished."""
    ledger = Ledger(folder / f"{run}-{role}.ledger")
    common = {"key": os.environ.get(KEY), "timeout_s": TIMEOUT_S, "retry_for_s": RETRY_FOR_S}
    load = roll if role == "planner" else score
    weights = ToyWeights(folder / f"{run}-{role}")
    async with (
        RecordingClient(url, **common) as sync,
        RecordingClient(url, **common) as stream,
        SyncClient(url, **common) as renewals,
    ):
        sync.ledger = stream.ledger = ledger
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load(sync, run))
            tasks.create_task(train(stream, renewals, run, role, weights))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("planner", "executor"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    configure_logs()
    given = _arguments()
    asyncio.run(main(cast(Role, given.role), given.url, given.run, given.folder))
