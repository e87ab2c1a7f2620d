"""Curves of a run: at most so many steps, evenly spaced, so that a long run costs what a short one does."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.base import Role
from shared.schemas.run import RunSpec
from sync_service import store
from sync_service.operations.quality import coverage

POINTS = 500
"""Steps of one role in a curve: a screen shows no more."""
REWARDS = ("reward_mean", "reward_deviation")
ANSWERS = ("correct_mean", "accuracy_validation", "accuracy_test")
LEARNING = (*REWARDS, *ANSWERS, "groups", "groups_dead", "clip_fraction", "gap_mean")
ALIGNMENT = ("rows_distinct", "rows_copied", "rows_dropped", "rows_masked", "effective_sample_size", "trajectories")
CALLS = "calls_per_rollout"

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Curves:
    """`steps` is the axis, every `every`-th one; each role has a value, or None, for each of them, by name."""

    run: str
    spec: RunSpec
    steps: Sequence[int]
    every: int
    roles: Mapping[Role, Mapping[str, Values]]


def spaced(after: int, last: int, points: int = POINTS) -> tuple[list[int], int]:
    """Steps above `after` up to `last`, the last one included, at most about `points`; and how far apart they are."""
    every = max(1, -(-(last - after) // points))
    steps = list(range(last, after, -every))
    return steps[::-1], every


async def curves(connection: AsyncConnection, run: str, names: Sequence[str], after: int = 0) -> Curves:
    """The named statistics of both roles. NotFound where there is no such run."""
    found = await store.runs.find(connection, run)
    steps, every = spaced(after, await store.series.last_step(connection, run))
    place = {step: at for at, step in enumerate(steps)}
    roles: dict[Role, dict[str, list[float | None]]] = {
        role: {name: [None] * len(steps) for name in names} for role in found.spec.trained_roles
    }
    for row in await store.series.values(connection, run, steps, names):
        for name, value in zip(names, row.figures, strict=True):
            roles[row.role][name][place[row.step]] = value
    return Curves(run, found.spec, steps, every, roles)


def ratio(part: Values, whole: Values) -> list[float | None]:
    """One curve as a part of another, where both are known."""
    return [a / b if a is not None and b else None for a, b in zip(part, whole, strict=True)]


@dataclass(frozen=True, slots=True)
class Calls:
    """How many rollouts made so many calls: in all, and for each step the share that stays within D_max."""

    bars: Mapping[int, int]
    covered: Values


async def calls(connection: AsyncConnection, of: Curves) -> Calls:
    """The calls of the steps of a curve, as the executor's trainer acked them."""
    total: Counter[int] = Counter()
    covered: dict[int, float | None] = {}
    for row in await store.series.histogram(connection, of.run, "executor", of.steps, CALLS):
        bars = _whole(row.bars.items())
        total.update(bars)
        covered[row.step] = coverage(bars, of.spec.d_max)
    return Calls(dict(sorted(total.items())), [covered.get(step) for step in of.steps])


def _whole(bars: Iterable[tuple[str, int]]) -> dict[int, int]:
    return {int(label): count for label, count in bars if label.isdecimal()}
