"""Training curves: what a sink is given is read back from its file."""

import json
import sys
from pathlib import Path

import pytest

from shared.errors import UserError
from shared.serving.sinks import MetricsConfig, open_sinks
from tests.event_files import events, points


async def test_tensorboard_has_a_point_for_each_statistic_of_each_step(tmp_path: Path) -> None:
    async with open_sinks(MetricsConfig(tensorboard=tmp_path), "r", "planner") as (sink,):
        sink.record("planner", 1, {"reward_mean": 0.25, "loss": -1.5})
        sink.record("planner", 2, {"reward_mean": 0.5})
    found = points(tmp_path / "r" / "planner")
    assert found == [(1, "reward_mean", 0.25), (1, "loss", -1.5), (2, "reward_mean", 0.5)]


async def test_a_step_that_is_trained_again_takes_back_the_points_from_it_on(tmp_path: Path) -> None:
    async with open_sinks(MetricsConfig(tensorboard=tmp_path), "r", "executor") as (sink,):
        for step, reward in ((1, 0.25), (2, 0.5), (3, 0.75), (2, 1.0)):
            sink.record("executor", step, {"reward_mean": reward})
    folder = tmp_path / "r" / "executor"
    assert [(step, value) for step, _, value in points(folder)] == [(1, 0.25), (2, 0.5), (3, 0.75), (2, 1.0)]
    began = [event.step for event in events(folder) if event.HasField("session_log")]
    assert began == [1, 2], "at a session's start TensorBoard forgets what it has from that step on"


async def test_a_file_of_lines_has_one_for_each_step(tmp_path: Path) -> None:
    file = tmp_path / "curves" / "planner.jsonl"
    for step in (1, 2):
        async with open_sinks(MetricsConfig(jsonl=file), "r", "planner") as (sink,):
            sink.record("planner", step, {"loss": 0.5})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"role": "planner", "step": step, "values": {"loss": 0.5}} for step in (1, 2)]


async def test_without_the_library_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError, match=r"tandem-cotrain\[tensorboard\]"):
        async with open_sinks(MetricsConfig(tensorboard=tmp_path), "r", "planner"):
            pass


@pytest.mark.parametrize("setting", ["jsonl", "tensorboard"])
async def test_a_place_that_cannot_be_written_is_a_users_mistake(tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").write_text("")
    config = MetricsConfig.model_validate({setting: tmp_path / "file" / "below"})
    with pytest.raises(UserError, match="file"):
        async with open_sinks(config, "r", "planner"):
            pass


async def test_nothing_is_written_where_nothing_is_set() -> None:
    async with open_sinks(MetricsConfig(), "r", "planner") as sinks:
        assert sinks == []
