"""metrics.jsonl: written as a run goes on, read back when it is resumed, whatever a kill left of its last line."""

from pathlib import Path

import pytest

from shared.cli.demo.metrics import Metrics
from shared.cli.demo.stopwatch import Stopwatch
from shared.errors import UserError
from shared.schemas.stream import StepStatistics


def step(number: int, epoch: int, reward: float) -> StepStatistics:
    return StepStatistics(
        step=number,
        role="planner",
        epoch=epoch,
        outcome="trained",
        updates=number,
        acked_at="2026-01-01T00:00:00Z",
        statistics={"reward_mean": reward},
    )


def test_what_was_written_is_read_back(tmp_path: Path):
    first = Metrics(tmp_path / "m.jsonl")
    assert first.add_step(step(1, 1, 0.25))
    assert not first.add_step(step(1, 1, 0.25))
    first.add_validation(1, [1.0, 0.0])
    again = Metrics(tmp_path / "m.jsonl")
    assert again.steps("planner") == [step(1, 1, 0.25)]
    assert again.validations == {1: 0.5}
    assert again.last("planner") == 1
    assert again.last("executor") == 0


def test_a_step_trained_again_replaces_the_lost_one(tmp_path: Path):
    metrics = Metrics(tmp_path / "m.jsonl")
    metrics.add_step(step(1, 1, 0.25))
    assert metrics.add_step(step(1, 2, 0.75))
    assert Metrics(tmp_path / "m.jsonl").steps("planner") == [step(1, 2, 0.75)]


def test_a_line_that_a_kill_cut_short_is_written_again(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    metrics = Metrics(path)
    metrics.add_step(step(1, 1, 0.25))
    metrics.add_step(step(2, 1, 0.5))
    path.write_bytes(path.read_bytes()[:-20])
    again = Metrics(path)
    assert again.last("planner") == 1
    assert again.add_step(step(2, 1, 0.5))
    assert Metrics(path).steps("planner") == [step(1, 1, 0.25), step(2, 1, 0.5)]


def test_a_spoilt_file_is_named(tmp_path: Path):
    for opening in (Metrics, Stopwatch):
        (tmp_path / "spoilt").write_text("{\n")
        with pytest.raises(UserError, match=r"/spoilt is spoilt: "):
            opening(tmp_path / "spoilt")
