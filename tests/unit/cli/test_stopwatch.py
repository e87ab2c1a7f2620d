"""Seconds by stage, over all starts of a run."""

from pathlib import Path

import pytest

from shared.cli.demo import stopwatch as module
from shared.cli.demo.stopwatch import Stopwatch


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    return clock


def test_a_resumed_run_adds_to_what_its_earlier_starts_took(tmp_path: Path, now: list[float]):
    first = Stopwatch(tmp_path / "seconds.json")
    with first.stage("warm-up"):
        now[0] += 30

    def interrupted() -> None:
        with first.stage("training"):
            now[0] += 5
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    second = Stopwatch(tmp_path / "seconds.json")
    with second.stage("training"):
        now[0] += 7
    assert second.seconds == Stopwatch(tmp_path / "seconds.json").seconds == {"warm-up": 30, "training": 12}
