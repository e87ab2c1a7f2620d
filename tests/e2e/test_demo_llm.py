"""`tandem demo-llm` whole, with a tiny model in SmolLM2's place: what it leaves, and what it prints last."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.demo_process import Demo
from tests.parity_environment import save_model

KEYS = {"steps_live", "steps_dead", "sampling_tokens_per_s", "training_tokens_per_s", "peak_rss_gib", "minutes"}
SHORT = ["warmup.steps=2", "llm.live_steps=1", "llm.retries=0", "demo.environment=tests.e2e.taught:Taught"]
FITTING = [f"{role}.limits.max_context_tokens=256" for role in ("planner", "executor")]
"""As many as the tiny model has positions."""
CERTAIN = ["run.rollouts_per_group=16", "run.groups_per_step=8"]
"""Models that answer at random: that no two rollouts of any group differ is out of the question."""


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A run in `tmp_path / "run"`; nothing of it is left when the test is over."""
    model = save_model(tmp_path / "model", "planner")
    folder = tmp_path / "run"
    started = Demo(tmp_path / "demo.log", "demo-llm", "--folder", folder, "--model", model, *SHORT, *FITTING, *CERTAIN)
    yield started
    started.process.kill()
    started.process.wait()
    assert started.left_behind() == []


def test_one_live_step_with_one_model_in_both_roles(demo: Demo, tmp_path: Path):
    assert demo.wait() == 0, demo.output
    summary = json.loads(demo.output.strip().splitlines()[-1])
    assert summary.keys() >= KEYS
    assert (summary["steps_live"], summary["steps_dead"]) == (1, 0)
    for rate in ("sampling_tokens_per_s", "training_tokens_per_s"):
        of_roles = [summary[f"{rate}_{role}"] for role in ("planner", "executor")]
        assert min(of_roles) > 0
        assert summary[rate] == pytest.approx(sum(of_roles), abs=0.02)
    assert summary["peak_rss_gib"] > 0.1
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert "step 1: live; planner: " in demo.output
    for role in ("planner", "executor"):
        warmed = json.loads((tmp_path / "run" / "warmup" / role / "warmup.json").read_text())
        assert (warmed["steps"], warmed["demonstrations"]) == (2, 32)
