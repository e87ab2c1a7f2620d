"""How much work a run of the benchmark does: the full one, a quick one, and the smallest one for a test."""

from dataclasses import dataclass, replace

from tests.benchmarks.sync import shape as sync

CALLS = 2
"""Of a rollout, in the history and in the load."""


@dataclass(frozen=True)
class Shape:
    """`history`: rollouts of the run that is watched. `samples`: of each page's query. `repeats`: pairs of loads.

    `paints`: of each page by a browser.
    """

    name: str
    history: int
    viewers: int
    repeats: int
    samples: int
    paints: int
    load: sync.Shape


FULL = Shape("full", 1_000_000, 100, 5, 40, 5, replace(sync.FULL, calls=CALLS, client_steps=32))
QUICK = Shape("quick", 50_000, 100, 2, 20, 3, replace(sync.QUICK, calls=CALLS, client_steps=16))
SMALLEST = Shape("smallest", 128, 3, 1, 3, 1, replace(sync.SMALLEST, calls=CALLS))
SHAPES = {shape.name: shape for shape in (FULL, QUICK, SMALLEST)}
