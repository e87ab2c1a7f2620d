"""Trajectory alignment (M-GRPO, arXiv 2511.13288, Eq. 11): each rollout with a call gets the mass of `d_max` rows.

A copy is the same row again, so it is a multiplicity: each distinct trajectory goes through the model once and counts
that often in the baseline and in the loss. Modes:

* `copies`, the paper: fewer than `d_max` are filled up by uniform draws with replacement from the rollout's own; of
  more than `d_max`, that many distinct ones are kept, uniform without replacement.
* `expected`: each counts `d_max / d_k`, the same in expectation and without the noise of the draw.
* `none`, for the arm without synchronisation: each counts once.

A rollout without a call has nothing to copy and borrows from no other: its `d_max` slots are masked.
"""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from shared.errors import InvalidInput

Mode = Literal["copies", "expected", "none"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """One group, aligned. `multiplicity` has every trajectory, 0 for a dropped one, sorted by rollout and id.

    `copied`: rows added as copies; `dropped`: trajectories left out; `masked`: slots of rollouts without a call;
    `distinct`: trajectories that count.
    """

    multiplicity: dict[str, float]
    copied: int
    dropped: int
    masked: int
    distinct: int


def align(rollouts: Mapping[str, Sequence[str]], *, d_max: int, mode: Mode, run_seed: int, group_id: str) -> Alignment:
    """Align the trajectories of one group; `rollouts` maps a rollout's id to its trajectories' ids, in any order.

    The result is a function of the ids and the seed alone: ids are sorted, and each rollout draws from a generator
    seeded by (run seed, group id, rollout id). InvalidInput for `d_max` under 1 or an id that stands twice.
    """
    if d_max < 1:
        raise InvalidInput(f"d_max is at least 1, not {d_max}")
    multiplicity: dict[str, float] = {}
    for rollout in sorted(rollouts):
        ids = sorted(rollouts[rollout])
        if len(set(ids)) < len(ids) or not multiplicity.keys().isdisjoint(ids):
            raise InvalidInput(f"rollout {rollout} names a trajectory that stands twice in group {group_id}")
        multiplicity |= _aligned(ids, d_max, mode, _generator(run_seed, group_id, rollout))
    sizes = [len(ids) for ids in rollouts.values()]
    copies = mode == "copies"
    return Alignment(
        multiplicity=multiplicity,
        copied=sum(d_max - d for d in sizes if 0 < d < d_max) if copies else 0,
        dropped=sum(d - d_max for d in sizes if d > d_max) if copies else 0,
        masked=sum(d_max for d in sizes if d == 0) if mode != "none" else 0,
        distinct=sum(m > 0 for m in multiplicity.values()),
    )


def _aligned(ids: list[str], d_max: int, mode: Mode, generator: random.Random) -> dict[str, float]:
    """The multiplicities of one rollout's trajectories, `ids` sorted."""
    if mode == "none" or not ids:
        return dict.fromkeys(ids, 1.0)
    if mode == "expected":
        return dict.fromkeys(ids, d_max / len(ids))
    if len(ids) > d_max:
        kept = sorted(ids, key=lambda _: generator.random())[:d_max]
        return dict.fromkeys(ids, 0.0) | dict.fromkeys(kept, 1.0)
    counts = dict.fromkeys(ids, 1.0)
    for _ in range(d_max - len(ids)):
        counts[ids[int(generator.random() * len(ids))]] += 1
    return counts


def _generator(*key: object) -> random.Random:
    """Seeded by a hash that every process and every Python computes alike; `random()` keeps its sequence by promise."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return random.Random(int.from_bytes(digest))


def effective_sample_size(multiplicities: Iterable[float]) -> float:
    """Kish's effective number of rows: (sum m)^2 / sum m^2, 0 where there is none."""
    weights = list(multiplicities)
    squares = sum(m * m for m in weights)
    return sum(weights) ** 2 / squares if squares else 0.0
