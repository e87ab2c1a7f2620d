"""`tandem demo-llm` whole, with tiny models in SmolLM2's place: what it prints last, and its exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from tests.e2e.demo_process import Demo
from tests.parity_environment import save_model
from tests.unit.agents.small_tokenizers import byte_level

KEYS = {"steps_live", "steps_dead", "sampling_tokens_per_s", "training_tokens_per_s", "peak_rss_gib", "minutes"}
SHORT = ["warmup.steps=2", "llm.live_steps=1", "llm.retries=0"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Start a run in `tmp_path / "run"`; nothing of it is left when the test is over."""
    started: list[Demo] = []

    def demo(*arguments: str | Path) -> Demo:
        started.append(Demo(tmp_path / "demo.log", "demo-llm", "--folder", tmp_path / "run", *arguments))
        return started[-1]

    yield demo
    for one in started:
        one.children()
        one.process.kill()
        one.process.wait()
        assert one.left_behind() == []


def summary_of(demo: Demo) -> dict:
    return json.loads(demo.output.strip().splitlines()[-1])


def test_two_models_that_answer_at_random_have_a_live_step(start, tmp_path: Path):
    """16 rollouts of each of 8 tasks: that no two of a group differ is out of the question."""
    base = [f"warmup.base.{role}={save_model(tmp_path / role, role)}" for role in ("planner", "executor")]
    shape = ["run.rollouts_per_group=16", "run.groups_per_step=8", "demo.environment=tests.e2e.taught:Taught"]
    demo = start(*SHORT, *base, *shape)
    assert demo.wait() == 0, demo.output
    summary = summary_of(demo)
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


def test_a_model_that_never_writes_an_action_ends_with_dead_steps(start, tmp_path: Path):
    """A model folder as a user has it, a ChatML tokenizer and random weights, on the demo's own environment."""
    tokenizer = byte_level()
    tokenizer.save_pretrained(tmp_path / "model")
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    limits = [
        f"{role}.limits.{name}"
        for role in ("planner", "executor")
        for name in ("max_new_tokens=4", "max_context_tokens=900")
    ]
    demo = start("--model", tmp_path / "model", *SHORT, *limits)
    assert demo.wait() == 4, demo.output
    summary = summary_of(demo)
    assert (summary["steps_live"], summary["steps_dead"]) == (0, 1)
    assert summary["dead"] == {"1": ["planner", "executor"]}
    assert "NOT LEARNING: 0 live steps, 1 wanted; 1 dead" in demo.output
    assert "Traceback" not in demo.output
