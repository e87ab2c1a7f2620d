"""`make bench-peers`: two other systems that stand where the sync service stands, with the same shape of work, in turn.

Both keep everything in memory and lose it with their process; ours is on disk before it answers. Each has an
environment of its own (`tests/benchmarks/environments.py`), made on the first run. Last, one line of JSON.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.environments import environment, python
from tests.benchmarks.peers import agent_lightning
from tests.benchmarks.sync.measure import Bench, Place
from tests.benchmarks.sync.service import embedded_service
from tests.benchmarks.sync.shape import FULL, QUICK, Shape
from tests.benchmarks.sync.worker import Worker

PEERS = ("agent-lightning", "transfer-queue")


def main() -> None:
    """Make the environments that are missing, measure, print."""
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repeat of less work")
    shape = QUICK if parser.parse_args().quick else FULL
    for name in PEERS:
        environment(name)
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        Path(folder).chmod(0o755)  # the account of the database walks through it
        rates = asyncio.run(_measure(shape, Path(folder)))
    _print(shape, {name: statistics.median(found) for name, found in rates.items()})


async def _measure(shape: Shape, folder: Path) -> dict[str, list[float]]:
    rates: defaultdict[str, list[float]] = defaultdict(list)
    groups, slots, clients = shape.raw_steps * shape.single_groups_per_step, shape.rollouts_per_group, shape.clients
    for repeat in range(shape.repeats):
        async with (
            Worker("tests.benchmarks.sync.load") as load,
            Worker("tests.benchmarks.sync.consume") as consumer,
            embedded_service(folder / f"ours-{repeat}") as running,
        ):
            bench, place = Bench(shape, load, consumer), Place(running.url, running.keys)
            rates["tandem, bulk"].append((await bench.bulk(place))["bulk_rollouts_per_s"])
            rates["tandem, SyncClient"].append((await bench.client(place))["client_rollouts_per_s"])
            rates["tandem, a request an item"].append((await bench.raw(place))["raw_rollouts_per_s"])
        log = folder / f"agent-lightning-{repeat}.log"
        rate = await agent_lightning.measure(environment("agent-lightning"), log, groups, slots, clients)
        rates["agent-lightning 0.3"].append(rate)
        rates["TransferQueue 0.1.11, bulk"].append(await asyncio.to_thread(_transfer_queue, shape))
    return rates


def _transfer_queue(shape: Shape) -> float:
    sizes = (shape.bulk_steps, shape.groups_per_step * shape.rollouts_per_group, shape.clients)
    script = Path(__file__).with_name("drive_transfer_queue.py")
    command = [python("transfer-queue"), script, *map(str, sizes)]
    environ = os.environ | {"RAY_AUTH_MODE": "disabled"}  # else it writes a token into the home folder
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=script.parent, env=environ)
    if done.returncode:
        raise RuntimeError(f"TransferQueue ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def _print(shape: Shape, rates: dict[str, float]) -> None:
    table = Table(title=f"complete rollouts a second, shape {shape.name}")
    for column in ("system", "rollouts/s", "kept"):
        table.add_column(column, justify="right" if column == "rollouts/s" else "left")
    for name, rate in rates.items():
        table.add_row(name, f"{rate:,.0f}", "on disk" if name.startswith("tandem") else "in memory")
    Console().print(table)
    bulk, client = rates["tandem, bulk"], rates["tandem, SyncClient"]
    agl, queue = rates["agent-lightning 0.3"], rates["TransferQueue 0.1.11, bulk"]
    line = {
        "rollouts_per_s": {name: round(rate, 1) for name, rate in rates.items()},
        "client_by_agent_lightning": round(client / agl, 2),
        "bulk_by_transfer_queue": round(bulk / queue, 2),
        "shape": shape.name,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
