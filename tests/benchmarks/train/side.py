"""One side of the comparison, as a process of its own that waits while another one takes its step."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from shared.policy.fork import KEEP_MEMORY
from tests.benchmarks.environments import environment, python

ROOT = Path(__file__).parents[3]
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


@dataclass(frozen=True)
class Taken:
    """One optimiser step; the norm is that before clipping, `bytes_above` the peak of the memory above the floor."""

    seconds: float
    cpu_seconds: float
    """Of all threads: what a busy machine disturbs least."""
    loss: float
    gradient_norm: float
    bytes_above: int


class Side:
    """Every side has the same threads and the same allocator settings, which are those of our own trainer process."""

    def __init__(self, name: str, model: Path, batch: Path, threads: int) -> None:
        self.name = name
        if name.startswith("trl"):
            environment("trl")
            command = [python("trl"), "-m", "tests.benchmarks.train.drive_trl"]
        else:
            command = [sys.executable, "-m", "tests.benchmarks.train.drive"]
        self._process = subprocess.Popen(
            [*command, name, model, batch, str(threads)],
            cwd=ROOT,
            env=os.environ | KEEP_MEMORY | QUIET | {"OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        """Let it take its warm-up step: not while another one runs, as their threads would wait for one another."""
        self._floor = self._ask()["floor"]

    def step(self) -> Taken:
        """Take one step; RuntimeError where the process ended instead."""
        found = self._ask()
        return Taken(bytes_above=found.pop("peak") - self._floor, **found)

    def close(self) -> None:
        """End it."""
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self) -> dict:
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the side {self.name} ended with {self._process.wait()}; its error is above")
        return json.loads(line)
