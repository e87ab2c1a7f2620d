"""How far ahead the planner may work, from the service's status."""

from typing import Any

import pytest

from planner_server import horizon as module
from planner_server.horizon import Horizon
from shared.schemas.run import RunStatus


class Service:
    """Answers the next of its statuses; the last one again and again."""

    def __init__(self, *statuses: tuple[str, int]) -> None:
        self._left = list(statuses)
        self.asked: list[int | None] = []

    async def status(
        self, run: str, *, open_step: int | None = None, wait_s: float = 0.0, counts: bool = True
    ) -> RunStatus:
        assert not counts
        self.asked.append(open_step)
        state, through = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        fields: dict[str, Any] = {"run": run, "state": state, "open_through": through}
        return RunStatus(**fields, groups={}, rollouts={}, trajectories={}, roles={})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_S", 0.0)


def horizon(service: Service) -> Horizon:
    return Horizon(service, "r")  # ty: ignore[invalid-argument-type]


@pytest.mark.parametrize(
    ("statuses", "opens"),
    [
        ([("declared", 1)], True),
        ([("running", 1)], True),
        ([("running", 0), ("running", 1)], True),
        ([("paused", 1), ("paused", 1), ("running", 1)], True),
        ([("draining", 1)], False),
        ([("running", 0), ("finished", 1)], False),
        ([("failed", 1)], False),
    ],
)
async def test_a_group_is_opened_when_the_service_allows_it(statuses: list[tuple[str, int]], opens: bool):
    service = Service(*statuses)
    assert await horizon(service).may_open(1) is opens
    assert service.asked == [1] * len(statuses)


@pytest.mark.parametrize(
    ("statuses", "starts"),
    [
        ([("running", 2)], True),
        ([("draining", 2)], True),
        ([("running", 1), ("running", 2)], True),
        ([("paused", 2), ("running", 2)], True),
        ([("failed", 2)], False),
        ([("running", 1), ("finished", 1)], False),
    ],
)
async def test_an_attempt_starts_only_within_the_horizon(statuses: list[tuple[str, int]], starts: bool):
    assert await horizon(Service(*statuses)).may_start(2) is starts


async def test_many_slots_ask_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "FRESH_S", 1000.0)
    service = Service(("running", 2))
    one = horizon(service)
    assert [await one.may_start(2) for _ in range(64)] == [True] * 64
    assert len(service.asked) == 1
