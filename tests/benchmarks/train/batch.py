"""The distinct rows of a batch, aligned as the executor server does, of random lengths, tokens and rewards."""

import math
import random

from executor_server.alignment import align
from shared.mgrpo.advantages import group_advantages
from tests.benchmarks.train.rows import Row
from tests.benchmarks.train.shape import CALLS, D_MAX, ROLLOUTS_PER_GROUP, Part

SAMPLED, TOOL = 48, 16
"""Tokens of a turn that the policy sampled, and of the tool's answer to it."""
RESERVED = 3
"""Low token ids that no row has: padding, end, unknown."""


def make(part: Part, vocabulary: int) -> list[Row]:
    """The distinct rows of these groups; a group has the same rows in any batch."""
    return [row for number in part.groups for row in _group(part, vocabulary, number)]


def _group(part: Part, vocabulary: int, number: int) -> list[Row]:
    rng = random.Random(number)
    calls = rng.sample(CALLS[number % len(CALLS)], ROLLOUTS_PER_GROUP)
    rollouts = {f"{number}-{r}": [f"{number}-{r}-{c}" for c in range(calls[r])] for r in range(ROLLOUTS_PER_GROUP)}
    aligned = align(rollouts, d_max=D_MAX, mode="copies", run_seed=0, group_id=str(number)).multiplicity
    weights = {id: weight for id, weight in aligned.items() if weight > 0}
    rewards = [rng.choice((0.0, 0.25, 0.5, 1.0)) for _ in weights]
    advantages = group_advantages(rewards, list(weights.values())).advantages
    return [
        _row(part, vocabulary, rng, id, advantage, weight)
        for (id, weight), advantage in zip(weights.items(), advantages, strict=True)
    ]


def _row(part: Part, vocabulary: int, rng: random.Random, id: str, advantage: float, weight: float) -> Row:
    """A prompt of an eighth of the row, then turns."""
    drawn = round(rng.lognormvariate(math.log(part.median_length), 0.7))
    length = min(max(drawn, part.shortest), part.longest)
    prompt = length // 8
    mask = [0] * prompt + [int(i % (SAMPLED + TOOL) < SAMPLED) for i in range(length - prompt)]
    ids = [rng.randrange(RESERVED, vocabulary) for _ in range(length)]
    return Row(id, ids, mask, advantage, weight, [0.0] * length)
