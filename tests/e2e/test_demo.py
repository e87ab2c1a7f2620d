"""`tandem demo` whole: its files, its figures, and what crossed the sync service."""

import json
from pathlib import Path

from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from shared.cli.demo.settings import Settings
from shared.config import load

WORDS = {"accuracy", "reward", "rows", "dead_groups", "staleness", "bytes_per_rollout", "calls_per_rollout", "steps"}


def test_a_smoke_run_leaves_what_it_promises(start, tmp_path: Path):
    demo = start()
    assert demo.wait() == 0, demo.output
    run = tmp_path / "run"
    assert load(Settings, run / "config.toml").spec().steps == 2

    summary = json.loads((run / "summary.json").read_text())
    assert set(summary) >= WORDS
    assert summary["state"] == "finished"
    assert {role: sum(outcomes.values()) for role, outcomes in summary["steps"].items()} == {
        "planner": 2,
        "executor": 2,
    }
    assert set(summary["rows"]) == {"distinct", "copied", "dropped", "masked"}
    assert len(summary["accuracy"]["sampled"]["planner_after_executor_before"]["interval"]) == 2
    assert 0 < summary["bytes_per_rollout"] < 4096

    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    acked = [(s["step"]["role"], s["step"]["step"]) for s in steps if s["kind"] == "step"]
    assert sorted(acked) == [(role, step) for role in ("executor", "planner") for step in (1, 2)]
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {log.name for log in (run / "logs").glob("*.log")} >= {"sync.log", "planner.log", "executor.log"}
    assert "executor before" in demo.output
    assert "bytes per rollout" in demo.output

    for role in ("planner", "executor"):
        last = run / role / "checkpoints" / "step-2"
        assert AutoModelForCausalLM.from_pretrained(last).config.model_type == "llama"
        assert AutoTokenizer.from_pretrained(last).eos_token
        with safe_open(last / "model.safetensors", "pt") as weights:
            assert len(list(weights.keys())) > 10


def test_the_same_folder_is_not_written_over(start, tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("precious")
    demo = start()
    assert demo.wait() == 2
    assert "is not empty" in demo.output
    assert "Traceback" not in demo.output
