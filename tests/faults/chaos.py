"""`make faults`: kill everything under load, again and again, and judge what is left.

    make faults                      200 cycles
    make faults ARGS=--quick         under 45 seconds
    make faults ARGS="--seed 7"      another order of kills

Prints a progress bar, a table and, last, one line of JSON; exit code 1 where anything was lost, taken twice, taken
from a zombie, or left waiting.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.faults.conductor import KINDS, Outcome, Shape, perform, theatre
from tests.faults.judge import Verdict, judge

FINDINGS = 20
EVERY = 20
"""Cycles between the lines that stand for the bar where there is no terminal."""
NUMBERS = ("acked", "lost", "double_consumed", "stale_acks_accepted", "stuck", "inconsistent")


def shape_of(argv: list[str] | None = None) -> Shape:
    """How much fire the command line asks for."""
    parser = argparse.ArgumentParser("make faults", description="Kill everything under load, and judge what is left.")
    parser.add_argument("--quick", action="store_true", help="under 45 seconds: as many of 15 cycles as fit")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the moments of the kills")
    given = parser.parse_args(argv)
    if given.quick:
        return Shape(cycles=15, runs=1, budget_s=24, seed=given.seed)
    return Shape(cycles=200, runs=2, budget_s=1500, seed=given.seed)


async def fire(shape: Shape, folder: Path, console: Console) -> tuple[Outcome, Verdict]:
    """All of it, in `folder`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=shape.cycles)
        async with theatre(folder, shape.runs) as stage:

            def told(kind: str, seconds: float) -> None:
                bar.update(task, advance=1, description=f"{kind}, back after {seconds:.1f} s")
                done = int(bar.tasks[task].completed)
                if not console.is_terminal and done % EVERY == 0:
                    console.print(f"{done} of {shape.cycles} cycles")

            outcome = await perform(stage, shape, told)
            bar.update(task, description="judging")
            verdict = await asyncio.to_thread(judge, folder, stage.postgres.conninfo, stage.runs)
    verdict.add("stuck", outcome.stuck)
    return outcome, verdict


def table(outcome: Outcome) -> Table:
    """A row for each kind of victim."""
    result = Table(title=f"kill -9 under load: {outcome.steps} steps acked")
    for name in ("victim", "cycles", "progress again after, mean", "worst"):
        result.add_column(name, justify="left" if name == "victim" else "right")
    for kind in KINDS:
        seconds = outcome.recovery_s[kind] or [0.0]
        worst = f"{max(seconds):.1f} s"
        result.add_row(kind, str(len(outcome.recovery_s[kind])), f"{sum(seconds) / len(seconds):.1f} s", worst)
    return result


def main() -> int:
    """The command."""
    shape, console, began = shape_of(), Console(), time.monotonic()
    console.print(f"seed {shape.seed}: {shape.cycles} cycles over {', '.join(KINDS)}")
    folder = Path(tempfile.mkdtemp(prefix="tandem-faults-", dir="/var/tmp"))
    folder.chmod(0o755)
    outcome, verdict = asyncio.run(fire(shape, folder, console))
    console.print(table(outcome))
    for finding in verdict.findings[:FINDINGS]:
        console.print(finding, markup=False)
    if verdict.good:
        shutil.rmtree(folder)
    else:
        console.print(f"logs, ledgers and weights are in {folder}")
    numbers = {name: getattr(verdict, name) for name in NUMBERS}
    result = {"cycles": outcome.cycles, **numbers, "seed": shape.seed}
    print(json.dumps(result | {"seconds": round(time.monotonic() - began, 1)}), flush=True)
    return 0 if verdict.good and outcome.cycles else 1


if __name__ == "__main__":
    sys.exit(main())
