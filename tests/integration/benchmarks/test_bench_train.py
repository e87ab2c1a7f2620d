"""The benchmark of the trainer runs, and its sides take the same step; how fast is not asserted."""

import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FIGURES = (
    "tokens_per_s",
    "copy_ratio",
    "speedup_vs_copies",
    "copy_share",
    "speedup_vs_hand_written",
    "memory_vs_hand_written",
)
WITHOUT_PEER = ("speedup_vs_trl", "memory_vs_trl", "trl_loss_difference")


def test_the_smallest_shape_gives_every_figure_and_one_loss() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.train", "--shape", "smallest"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    line = json.loads(done.stdout.splitlines()[-1])
    assert {name: math.isfinite(line[name]) for name in FIGURES} == dict.fromkeys(FIGURES, True)
    assert {name: line[name] for name in WITHOUT_PEER} == dict.fromkeys(WITHOUT_PEER)
    assert line["max_loss_difference"] < 1e-5
    counts = line["shape"]["small_batch"]
    assert math.isclose(line["copy_ratio"], counts["tokens"] / counts["distinct_tokens"], abs_tol=1e-6)
