"""The long form, both roles: `python -m tests.e2e.survival [--kills 12] [--seed 1]`; the last line is JSON.

`--kills` are those of each role, at the same time: a third each of its trainer, its server and the sync service.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from shared.schemas import ROLES
from sync_service.embedded import embedded
from tests.e2e.survival.orders import STEPS, orders
from tests.e2e.survival.run import database_of_its_own, train
from tests.e2e.survival.verdict import check


async def compare(folder: Path, kills: int, seed: int) -> dict[str, object]:
    """Train the recorded run twice, and compare; AssertionError where a bit differs."""
    third, rest = divmod(kills, 3)
    plan = {
        role: orders(seed + place, {"sync service": third + rest, "trainer": third, "server": third})
        for place, role in enumerate(ROLES)
    }
    async with embedded(folder / "database") as services:
        url = services.database_url
        _, before = await train(folder / "never", database_of_its_own(url, "never"), dict.fromkeys(ROLES, ()))
        _, after = await train(folder / "killed", database_of_its_own(url, "killed"), plan)
    for role in ROLES:
        check(before[role], after[role])
    return {
        "kills": sum(map(len, plan.values())),
        "steps": STEPS,
        "bit_identical": list(ROLES),
        "updates_dropped": {role: len(after[role].updates) - len(before[role].updates) for role in ROLES},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tandem-survival-") as folder:
        os.chmod(folder, 0o755)  # Postgres may run as another user
        outcome = asyncio.run(compare(Path(folder), arguments.kills, arguments.seed))
    print(json.dumps(outcome | {"seconds": round(time.monotonic() - started, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
