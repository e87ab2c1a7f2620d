"""The learnability benchmark runs, on a pair that was hardly warmed up too: all its figures, for two tasks."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.demo_process import LIMIT_S

ROOT = Path(__file__).parents[2]


def test_it_runs_from_its_first_figure_to_its_last(models: list[str]):
    folders = [override.partition("=")[2] for override in models]
    command = [sys.executable, ROOT / "tests/benchmarks/learnability.py", *folders, "--steps", "1", "--tasks", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["before"], line["temperature"]) for line in lines if "before" in line] == [
        (split, temperature) for split in ("validation", "test") for temperature in (1.0, 0.0)
    ]
    assert [line["step"] for line in lines if "step" in line] == [1]
    cells = [(line["cell"], line["temperature"]) for line in lines if "cell" in line]
    assert cells == [(f"P{p}E{e}", temperature) for temperature in (1.0, 0.0) for p in (0, 1) for e in (0, 1)]
    assert all(0 <= line["accuracy"] <= 1 for line in lines if "accuracy" in line)
