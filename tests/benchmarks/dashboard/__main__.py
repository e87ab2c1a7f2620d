"""`make bench-dashboard`: what people who watch cost, and how long a page's query takes on a long run; last, JSON.

past.py      what the run has beside its rows: acks with statistics, versions, times, events
viewers.py   browsers without a screen: each logs in, and reads the live stream
queries.py   what each page reads, timed on the database
paint.py     how soon a browser shows each page
shape.py     how much of it

The service is its real process, with embedded Postgres (fsync on) and Valkey, with keys. The load is that of
`tests/benchmarks/sync`: callers that submit one by one through `SyncClient`, and trainers that ack, on the next steps
of the long run, which is also the one that is watched; in turn without viewers and with them.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.benchmarks.dashboard.paint import painted
from tests.benchmarks.dashboard.past import enrich
from tests.benchmarks.dashboard.queries import timed
from tests.benchmarks.dashboard.shape import SHAPES, Shape
from tests.benchmarks.dashboard.viewers import Seen, watching
from tests.benchmarks.sync.history import Past, fill, settle
from tests.benchmarks.sync.measure import Bench, Place, Run
from tests.benchmarks.sync.service import Running, embedded_service
from tests.benchmarks.sync.worker import Worker

KIND = "single"
Tell = Callable[[str], None]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="make bench-dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller shape, under 45 s in all")
    parser.add_argument("--shape", choices=SHAPES, default="full")
    arguments = parser.parse_args()
    shape = SHAPES["quick" if arguments.quick else arguments.shape]
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        Path(folder).chmod(0o755)  # the account of the database walks through it
        asyncio.run(_run(shape, Path(folder)))


async def _run(shape: Shape, folder: Path) -> None:
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=4 + 2 * shape.repeats)

        def tell(what: str) -> None:
            progress.update(task, advance=1, description=what)

        async with (
            Worker("tests.benchmarks.sync.load") as load,
            Worker("tests.benchmarks.sync.consume") as consumer,
            embedded_service(folder / "service") as service,
        ):
            bench, place = Bench(shape.load, load, consumer), Place(service.url, service.keys)
            tell(f"a history of {shape.history:,} rollouts")
            past = await _make_past(shape, bench, place, service)
            tell("what pages read")
            queries = await timed(service.database_url, past, shape.samples)
            tell("first paint")
            paints = await asyncio.to_thread(painted, service.url, service.keys["viewer"], past.run, shape.paints)
            rates, seen = await _with_and_without(shape, bench, place, service, tell)
    _report(shape, queries, paints, rates, seen)


async def _make_past(shape: Shape, bench: Bench, place: Place, service: Running) -> Past:
    name = await bench.declare(place, KIND)
    load = shape.load
    past = Past(name, shape.history, load.single_groups_per_step, load.rollouts_per_group, load.calls)
    for make in (lambda: fill(service.database_url, past), lambda: enrich(service.database_url, past)):
        await asyncio.to_thread(make)
    await asyncio.to_thread(settle, service.database_url)
    place.runs[KIND] = Run(name, past.steps + 1)
    return past


async def _with_and_without(
    shape: Shape, bench: Bench, place: Place, service: Running, tell: Tell
) -> tuple[list[tuple[float, float]], Seen]:
    """Rollouts a second without viewers and with them, in pairs; which is first changes. And what the viewers saw."""
    run, pairs, seen = place.runs[KIND].name, [], Seen()
    await bench.client(place)  # the first one finds cold caches
    for repeat in range(shape.repeats):
        rates: dict[bool, float] = {}
        for watched in (False, True) if repeat % 2 == 0 else (True, False):
            tell(f"{'with' if watched else 'without'} viewers ({repeat + 1} of {shape.repeats})")
            async with contextlib.AsyncExitStack() as stack:
                if watched:
                    viewers = watching(service.url, service.keys["viewer"], run, shape.viewers, seen)
                    await stack.enter_async_context(viewers)
                rates[watched] = (await bench.client(place))["client_rollouts_per_s"]
        pairs.append((rates[False], rates[True]))
    return pairs, seen


def _report(
    shape: Shape, queries: dict[str, float], paints: dict[str, float], pairs: list[tuple[float, float]], seen: Seen
) -> None:
    table = Table(title=f"dashboard, shape {shape.name}")
    table.add_column("figure")
    table.add_column("value", justify="right")
    without, watched = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    cost = 1 - statistics.median(b / a for a, b in pairs)
    table.add_row("rollouts a second, without viewers", f"{without:,.0f}")
    table.add_row(f"rollouts a second, with {shape.viewers} viewers", f"{watched:,.0f}")
    table.add_row("share that they cost, median of pairs", f"{cost:.3f}")
    table.add_row("frames that they read", f"{seen.frames:,}")
    for name, value in queries.items():
        table.add_row(f"{name}, p95 in ms", f"{value:,.1f}")
    for name, value in paints.items():
        table.add_row(f"{name}, first paint in ms", f"{value:,.0f}")
    Console().print(table)
    line = {
        "viewer_cost": round(cost, 4),
        "query_p95_ms": round(max(queries.values()), 2),
        "rollouts_per_s": round(without, 1),
        "watched_rollouts_per_s": round(watched, 1),
        "frames": seen.frames,
        "first_paint_ms": round(max(paints.values()), 1),
        "paints": {name: round(value, 1) for name, value in paints.items()},
        "queries": {name: round(value, 2) for name, value in queries.items()},
        "shape": asdict(shape),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    sys.exit(main())
