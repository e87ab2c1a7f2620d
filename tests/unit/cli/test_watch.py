"""When a run is over: not before this start's trainers have said what their checkpoints hold."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from rich.progress import Progress

from shared.cli.demo import watch as module
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.settings import load_settings
from shared.cli.demo.watch import Watch
from shared.client import SyncClient
from shared.schemas.base import Page
from shared.schemas.run import RoleStatus, RunStatus
from shared.schemas.stream import StepStatistics

SETTINGS = load_settings("smoke", [])
STEP = {"outcome": "trained", "updates": 1, "acked_at": "2026-01-01T00:00:00Z", "statistics": {}}


class Sync:
    """A sync service that tells one status after another, the last one for ever."""

    def __init__(self, *statuses: tuple[Any, int, int]) -> None:
        self._statuses: Sequence[RunStatus] = [status(*one) for one in statuses]
        self.asked = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/steps"):
            epoch = self._current.roles["planner"].epoch
            step = StepStatistics(step=2, role="planner", epoch=epoch, **STEP)
            return httpx.Response(200, content=Page[StepStatistics](items=(step,)).model_dump_json())
        self.asked += 1
        return httpx.Response(200, content=self._current.model_dump_json())

    @property
    def _current(self) -> RunStatus:
        return self._statuses[min(self.asked, len(self._statuses)) - 1]


def status(state: Any, planner: int, executor: int) -> RunStatus:
    """`planner` and `executor` are the epochs of the streams."""
    streams = {"planner": planner, "executor": executor}
    idle = {"acked_step": 2, "live_step": 2, "worker": None, "ready": 0, "waiting": 0, "dead": 0}
    roles: Any = {role: RoleStatus(epoch=epoch, **idle) for role, epoch in streams.items()}
    return RunStatus(run="run", state=state, open_through=2, groups={}, rollouts={}, trajectories={}, roles=roles)


async def watched(folder: Path, sync: Sync) -> Metrics:
    """Follow the run to its end, after an earlier start under the epochs 4 and 7."""

    async def no_checkpoints(url: str) -> set[str]:
        return set()

    services: Any = SimpleNamespace(
        check=lambda: None, epochs={"planner": 4, "executor": 7}, urls=SimpleNamespace(planner="p", executor="e")
    )
    evaluator: Any = SimpleNamespace(checkpoints=no_checkpoints)
    metrics = Metrics(folder / "metrics.jsonl")
    async with SyncClient("http://sync", transport=httpx.MockTransport(sync.answer)) as client:
        with Progress(disable=True) as progress:
            await Watch(folder, SETTINGS, services, client, evaluator, metrics, progress).until_finished()
    return metrics


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.0)


async def test_steps_that_a_finished_runs_checkpoints_lack_are_waited_for(tmp_path: Path):
    sync = Sync(
        ("finished", 4, 7),
        ("finished", 4, 8),
        ("draining", 5, 8),
        ("draining", 5, 8),
        ("finished", 5, 8),
    )
    metrics = await watched(tmp_path, sync)
    assert sync.asked == 5
    assert [step.epoch for step in metrics.steps("planner")] == [5]


async def test_a_status_that_may_be_older_than_the_last_resume_is_not_the_end(tmp_path: Path):
    sync = Sync(("finished", 5, 8), ("draining", 5, 8), ("finished", 5, 8))
    await watched(tmp_path, sync)
    assert sync.asked == 3
