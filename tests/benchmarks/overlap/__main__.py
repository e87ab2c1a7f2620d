"""`make bench-overlap`: how much of a step's sampling and training is hidden behind the other, by staleness bound.

The planner's real server, with its sampler and its trainer on one thread each; the executor is replayed. A step would
take the longer of sampling and training if they overlapped wholly: `overlap_ratio_staleness_n` is by how much it takes
longer than that. Last, one line of JSON.

role.py    one run of the planner's server on a sync service, measured
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sync_service import migrate
from sync_service.embedded import embedded
from tests.benchmarks.overlap.role import SHAPES, Shape, Step, measure

BOUNDS = (0, 1, 2)


def main() -> None:
    """Measure each staleness bound in turn, repeat by repeat, and print."""
    parser = argparse.ArgumentParser(prog="make bench-overlap", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller steps, under 45 s in all")
    parser.add_argument("--shape", choices=SHAPES, default="full")
    parser.add_argument("--repeats", type=int, help="of each staleness bound; the shape's own where it is not given")
    arguments = parser.parse_args()
    shape = SHAPES["quick" if arguments.quick else arguments.shape]
    shape = shape._replace(repeats=arguments.repeats or shape.repeats)
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        Path(folder).chmod(0o755)  # the account of the database walks through it
        report(shape, asyncio.run(_run(shape, Path(folder))))


async def _run(shape: Shape, folder: Path) -> dict[int, Step]:
    console = Console(stderr=True)
    found: defaultdict[int, list[Step]] = defaultdict(list)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=shape.repeats * len(BOUNDS))
        async with embedded(folder / "servers") as servers:
            await asyncio.to_thread(migrate.upgrade, servers.database_url)
            for repeat in range(shape.repeats):
                for bound in BOUNDS:
                    progress.update(task, description=f"staleness {bound} ({repeat + 1} of {shape.repeats})")
                    run = f"staleness-{bound}-{repeat}"
                    found[bound].append(await measure(servers, folder / run, run, bound, shape))
                    progress.advance(task)
    return {bound: _median(steps) for bound, steps in found.items()}


def _median(steps: list[Step]) -> Step:
    return Step(*(statistics.median(values) for values in zip(*steps, strict=True)))


def report(shape: Shape, steps: dict[int, Step]) -> None:
    """Print the table and, last, the line."""
    table = Table(title=f"seconds a step of {shape.rollouts} rollouts, shape {shape.name}")
    for column in ("staleness", "step", "sampling", "training", "step / the longer", "staleness seen"):
        table.add_column(column, justify="right")
    for bound, step in steps.items():
        cells = [f"{value:.3f}" for value in (step.wall_s, step.sampling_s, step.training_s)]
        table.add_row(str(bound), *cells, f"{step.ratio:.2f}", f"{step.staleness:.2f}")
    Console().print(table)
    line: dict = {f"overlap_ratio_staleness_{bound}": round(step.ratio, 3) for bound, step in steps.items()}
    for name in Step._fields:
        line[name] = {str(bound): round(getattr(step, name), 4) for bound, step in steps.items()}
    line["speedup_staleness_1"] = round(steps[0].wall_s / steps[1].wall_s, 3)
    print(json.dumps(line | {"shape": shape._asdict()}))


if __name__ == "__main__":
    main()
