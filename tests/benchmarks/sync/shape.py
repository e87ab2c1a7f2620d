"""How much work a run of the benchmark does: the full one, a quick one, and the smallest one for a test."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A step is `groups_per_step` groups of `rollouts_per_group` rollouts with `calls` executor trajectories each.

    `*_steps`: steps of one measurement. `clients`: bulk connections, each with a step in hand. `callers`: those that
    submit one by one. `paced_*`: the open-loop measurement of latency and visibility; its batches are small, so that
    there are many. `history`: rollouts that are already in the database, in the same run.
    """

    name: str
    bulk_steps: int
    client_steps: int
    raw_steps: int
    groups_per_step: int
    single_groups_per_step: int
    stream_runs: int
    stream_steps: int
    paced_s: float
    history: int
    repeats: int
    rollouts_per_group: int = 8
    calls: int = 4
    clients: int = 8
    callers: int = 64
    batch_items: int = 512
    paced_per_s: float = 100.0
    paced_rollouts: int = 4


FULL = Shape(
    name="full",
    bulk_steps=24,
    client_steps=24,
    raw_steps=8,
    groups_per_step=64,
    single_groups_per_step=8,
    stream_runs=8,
    stream_steps=24,
    paced_s=8.0,
    history=1_000_000,
    repeats=3,
)
QUICK = Shape(
    name="quick",
    bulk_steps=8,
    client_steps=8,
    raw_steps=3,
    groups_per_step=64,
    single_groups_per_step=8,
    stream_runs=4,
    stream_steps=16,
    paced_s=3.0,
    history=50_000,
    repeats=1,
)
SMALLEST = Shape(
    name="smallest",
    bulk_steps=1,
    client_steps=1,
    raw_steps=1,
    groups_per_step=2,
    single_groups_per_step=1,
    stream_runs=1,
    stream_steps=2,
    paced_s=0.3,
    history=64,
    repeats=1,
    clients=1,
    callers=4,
)
SHAPES = {shape.name: shape for shape in (FULL, QUICK, SMALLEST)}
