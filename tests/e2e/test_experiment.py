"""`tandem experiment` as a user runs it: killed in the middle of a job, it goes on there, and reports."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.demo_process import LIMIT_S, Demo

SMALL = ("--smoke", "--arms", "cotrain", "warmup.steps=3", "run.steps=4")


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Start the experiment in `tmp_path / "all"`; everything is gone when the test is over."""
    started: list[Demo] = []

    def experiment(*arguments: str) -> Demo:
        log = tmp_path / f"log-{len(started)}"
        started.append(Demo(log, "experiment", "--folder", tmp_path / "all", *SMALL, *arguments))
        return started[-1]

    yield experiment
    for one in started:
        one.children()
        one.process.kill()
        one.process.wait()
        assert one.left_behind() == []


def test_a_killed_experiment_goes_on_where_it_was(start, tmp_path: Path):
    job = tmp_path / "all" / "jobs" / "cotrain-11"
    first = start()
    wait_for_a_step(first, job / "metrics.jsonl")
    first.process.kill()
    first.process.wait()
    assert first.left_behind() == []
    assert not (job / "result.json").exists()

    second = start("--json")
    assert second.wait() == 0, second.output
    result = json.loads((job / "result.json").read_text())
    assert list(result["curves"]["planner"]["reward_mean"]) == ["1", "2", "3", "4"]
    assert result["tokens"]["planner"] > 0
    assert len(result["after"]["sampled"]["transcripts"]) == 8
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert summary["arms"]["cotrain"]["seeds"] == summary["arms"]["untrained"]["seeds"] == [11]
    assert summary["comparisons"]["cotrain - untrained"]["interval"] is None
    assert {"README.md", "tasks.html", "curves.png"} <= {path.name for path in (tmp_path / "all").iterdir()}


def wait_for_a_step(experiment: Demo, metrics: Path) -> None:
    """Until a step of the job is recorded, and the job is not over."""
    deadline = time.monotonic() + LIMIT_S
    while not (metrics.exists() and '"kind": "step"' in metrics.read_text()):
        assert experiment.process.poll() is None, experiment.output
        assert time.monotonic() < deadline
        experiment.children()
        time.sleep(0.05)
