"""The benchmark of overlap runs, and prints every figure; how fast is not asserted."""

import json
import subprocess
import sys
from math import isfinite
from pathlib import Path

ROOT = Path(__file__).parents[3]
BOUNDS = ("0", "1", "2")


def test_the_smallest_shape_gives_every_figure() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.overlap", "--shape", "smallest"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    line = json.loads(done.stdout.splitlines()[-1])
    assert all(isfinite(line[f"overlap_ratio_staleness_{bound}"]) for bound in BOUNDS)
    assert all(line["wall_s"][bound] > 0 for bound in BOUNDS)
    assert line["staleness"]["0"] == 0
    assert line["shape"]["name"] == "smallest"
