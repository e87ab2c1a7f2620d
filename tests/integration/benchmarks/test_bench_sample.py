"""The benchmark of sampling runs, and prints every figure; how fast is not asserted."""

import json
import subprocess
import sys
from math import isfinite
from pathlib import Path

ROOT = Path(__file__).parents[3]
RATIOS = ("speedup_64_vs_generate", "speedup_64_vs_static", "speedup_64_vs_static_mixed")


def test_the_smallest_shape_gives_every_figure() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.sample", "--shape", "smallest", "--without-vllm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    line = json.loads(done.stdout.splitlines()[-1])
    assert all(isfinite(line[name]) for name in RATIOS)
    assert line["vs_vllm"] is None
    sides = {f"{side}_{count}" for side in ("ours", "static") for count in (1, 8, 64)} | {"generate_1"}
    assert set(line["tokens_per_s"]["demo"]) == sides | {f"{side}_mixed" for side in sides}
    assert all(rate > 0 for rate in line["tokens_per_s"]["demo"].values())
    assert line["shape"]["name"] == "smallest"
