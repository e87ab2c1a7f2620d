"""`make bench-sync`: how much the sync service bears. Starts everything itself; prints a table, and last, JSON.

service.py   the service as its real process, with embedded Postgres (fsync on) and Valkey, with keys
load.py      the load generator, a process of its own
consume.py   the trainers that lease and ack beside it, a process of their own
measure.py   one figure after another
history.py   a second service, whose runs have a long history
report.py    medians of the repeats, the table, the JSON
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.benchmarks.sync.history import SHARES, Past, fill, settle
from tests.benchmarks.sync.measure import Bench, Place, Run, kinds
from tests.benchmarks.sync.report import Figures, report
from tests.benchmarks.sync.service import Running, embedded_service, polling_service
from tests.benchmarks.sync.shape import SHAPES, Shape
from tests.benchmarks.sync.worker import Worker

MEASURED = ("bulk", "client", "raw", "stream", "paced")


@dataclass(frozen=True)
class Places:
    """The three services: one whose runs are new, one without Redis beside it, one whose runs have a history."""

    fresh: Place
    polling: Place
    old: Place


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="make bench-sync", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller shape, under 45 s in all")
    parser.add_argument("--shape", choices=SHAPES, default="full")
    arguments = parser.parse_args()
    shape = SHAPES["quick" if arguments.quick else arguments.shape]
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        Path(folder).chmod(0o755)  # the account of the database walks through it
        figures = asyncio.run(_run(shape, Path(folder)))
    report(shape, figures)


async def _run(shape: Shape, folder: Path) -> Figures:
    console = Console(stderr=True)
    total = 2 + shape.repeats * (2 * len(MEASURED) + 1)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting two services", total=total)

        def tell(what: str) -> None:
            progress.update(task, advance=1, description=what)

        async with (
            Worker("tests.benchmarks.sync.load") as load,
            Worker("tests.benchmarks.sync.consume") as consumer,
            _services(folder) as (fresh, old),
            contextlib.AsyncExitStack() as third,
        ):
            tell(f"a history of {shape.history:,} rollouts")
            bench, past = Bench(shape, load, consumer), _place(old)
            polling, _ = await asyncio.gather(  # it starts while the database works
                third.enter_async_context(polling_service(fresh, folder / "polling")),
                _make_history(bench, past, old.database_url),
            )
            return await _measure(bench, Places(_place(fresh), _place(polling), past), tell)


@contextlib.asynccontextmanager
async def _services(folder: Path) -> AsyncGenerator[tuple[Running, Running]]:
    async with contextlib.AsyncExitStack() as stack:
        fresh, old = await asyncio.gather(
            stack.enter_async_context(embedded_service(folder / "fresh")),
            stack.enter_async_context(embedded_service(folder / "old")),
        )
        yield fresh, old


def _place(running: Running) -> Place:
    return Place(running.url, running.keys)


async def _make_history(bench: Bench, place: Place, database_url: str) -> None:
    """Give a run of each kind its share of the history."""
    for kind, (groups, slots) in kinds(bench.shape).items():
        noun = kind.partition("-")[0]
        share = SHARES[noun] / (bench.shape.stream_runs if noun == "stream" else 1)
        name = await bench.declare(place, kind)
        past = Past(name, round(share * bench.shape.history), groups, slots, bench.shape.calls)
        await asyncio.to_thread(fill, database_url, past)
        place.runs[kind] = Run(name, past.steps + 1)
    await asyncio.to_thread(settle, database_url)


async def _measure(bench: Bench, places: Places, tell) -> Figures:
    """Every figure in every place, in turn, so that what disturbs the machine disturbs them alike."""
    figures = Figures()
    for repeat in range(1, bench.shape.repeats + 1):
        for name in MEASURED:
            for where in ("fresh", "polling", "old") if name == "paced" else ("fresh", "old"):
                tell(f"{name}, {where} ({repeat} of {bench.shape.repeats})")
                figures.add(where, await getattr(bench, name)(getattr(places, where)))
    return figures


if __name__ == "__main__":
    sys.exit(main())
