"""`make bench-train`: what a training step costs, ours beside others' on the same rows, model and dtype.

batch.py, rows.py   the rows: aligned, of random calls, lengths, tokens and rewards
models.py           a model of a million parameters, and SmolLM2-135M-Instruct
ours.py             our trainer: distinct rows with multiplicities; as the side `copies`, each copy a row of its own
handwritten.py      a plain step, the yardstick
drive_trl.py        TRL's `GRPOTrainer`, in an environment of its own
side.py, drive.py   each side is a process; memory.py reads its peak
measure.py          their steps, in turn
report.py           medians, ratios, the table, the JSON
"""

import argparse
import os
import tempfile
from pathlib import Path

import torch
import transformers
from rich.console import Console
from rich.progress import Progress

from tests.benchmarks.train.measure import measure
from tests.benchmarks.train.models import save_small, smollm2
from tests.benchmarks.train.report import report
from tests.benchmarks.train.shape import EVERY_SIDE, SHAPES


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="make bench-train", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller shape, under 45 s in all")
    parser.add_argument("--shape", choices=SHAPES, default="full")
    parser.add_argument("--repeats", type=int, help="steps of each side; the shape's own where it is not given")
    parser.add_argument("--sides", nargs="+", choices=EVERY_SIDE, help="fewer sides; `ours` is always one")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each side; the cores by default")
    arguments = parser.parse_args()
    shape = SHAPES["quick" if arguments.quick else arguments.shape].repeated(arguments.repeats).among(arguments.sides)
    threads = arguments.threads
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(threads)
    console = Console(stderr=True)
    total = sum(len(part.sides) * (1 + part.repeats) for part in (shape.small, shape.smollm2) if part)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("the models and their rows", total=total)

        def tell(what: str) -> None:
            progress.update(task, advance=1, description=what)
            if not console.is_terminal:
                console.print(what)

        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            small = shape.small and measure(shape.small, save_small(Path(folder)), threads, tell)
        large = shape.smollm2 and measure(shape.smollm2, smollm2(), threads, tell)
    report(shape, threads, small, large)


if __name__ == "__main__":
    main()
