"""The benchmark of the dashboard runs, and prints every figure; how fast is not asserted."""

import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_smallest_shape_gives_every_figure() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.dashboard", "--shape", "smallest"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    line = json.loads(done.stdout.splitlines()[-1])
    figures = ("viewer_cost", "query_p95_ms", "first_paint_ms", "rollouts_per_s")
    assert all(math.isfinite(line[name]) for name in figures)
    assert line["query_p95_ms"] == max(line["queries"].values()) > 0
    assert line["frames"] >= line["shape"]["viewers"] == 3
