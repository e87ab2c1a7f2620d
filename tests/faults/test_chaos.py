"""`make faults` in short: each kind of victim once, and a judge that sees what it should."""

import os
import random
import tempfile
from pathlib import Path

from rich.console import Console

from tests.faults.chaos import fire, table
from tests.faults.conductor import KINDS, Shape, schedule


async def test_nothing_is_lost_when_each_is_killed_once() -> None:
    with tempfile.TemporaryDirectory(prefix="tandem-faults-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        shape = Shape(cycles=len(KINDS), runs=1, budget_s=60, seed=3)
        outcome, verdict = await fire(shape, Path(folder), Console(quiet=True))
    assert verdict.findings == []
    assert {kind: len(seconds) for kind, seconds in outcome.recovery_s.items()} == dict.fromkeys(KINDS, 1)
    assert verdict.acked > 100
    assert table(outcome).row_count == len(KINDS)


def test_a_seed_is_an_order_of_kills() -> None:
    once, again, other = (schedule(20, random.Random(seed)) for seed in (1, 1, 2))
    assert once == again
    assert once != other
    assert {kind: once.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 4)
