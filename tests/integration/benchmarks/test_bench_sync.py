"""The benchmark of the sync service runs, and prints every figure; how fast is not asserted."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FIGURES = (
    "bulk_rollouts_per_s",
    "client_rollouts_per_s",
    "raw_rollouts_per_s",
    "submit_p50_ms",
    "submit_p99_ms",
    "visibility_p99_ms",
    "visibility_polling_p99_ms",
    "stream_cycles_per_s",
    "bytes_per_rollout",
    "long_history_ratio",
)


def test_the_smallest_shape_gives_every_figure() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.sync", "--shape", "smallest"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    line = json.loads(done.stdout.splitlines()[-1])
    assert {name: line[name] > 0 for name in FIGURES} == dict.fromkeys(FIGURES, True)
    assert line["shape"]["name"] == "smallest"
