"""Draws at temperature 1 and others are unbiased and independent: rows that share batches, that join and leave."""

from collections import Counter
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from shared.errors import UserError
from shared.policy.engine import Engine
from shared.policy.policy import Policy
from shared.policy.pool.start import RayPool
from shared.policy.turns import Prompt

from .tiny import build_model

PROMPT = [5, 6, 7]
GROUPS, ROLLOUTS = 800, 8
CRITICAL = 4.0
"""Standard deviations above which a chi-square is refused; its seed is fixed, so it is always the same."""


def first_tokens(model, temperature):
    """Of groups of one prompt, 60 rows at once, whose turns have unlike lengths; greedy rows are among them."""
    engine = Engine(model, 60, 2**26, torch.Generator().manual_seed(11))
    for group in range(GROUPS):
        for rollout in range(ROLLOUTS):
            engine.add((group, rollout), Prompt(PROMPT, 1 + (group + 3 * rollout) % 4, frozenset(), temperature))
        engine.add((group, "greedy"), Prompt(PROMPT, 2, frozenset(), 0.0))
    turns = {}
    while engine.unanswered:
        turns |= engine.step()
    return [[turns[group, rollout].token_ids[0] for rollout in range(ROLLOUTS)] for group in range(GROUPS)]


def deviations(seen, expected):
    """How many standard deviations chi-square lies above its mean; rare cells are put together."""
    common = [key for key, count in expected.items() if count >= 5]
    rest = sum(expected.values()) - sum(expected[key] for key in common)
    cells = [(seen[key], expected[key]) for key in common]
    if rest >= 5:
        cells.append((sum(seen.values()) - sum(seen[key] for key in common), rest))
    freedom = len(cells) - 1
    return (sum((s - e) ** 2 / e for s, e in cells) - freedom) / (2 * freedom) ** 0.5


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.8])
def test_tokens_come_as_often_as_softmax_says_and_rollouts_of_a_group_are_independent(temperature):
    model = build_model()
    with torch.no_grad():
        exact = (model(torch.tensor([PROMPT])).logits[0, -1].double() / temperature).softmax(-1).tolist()
    groups = first_tokens(model, temperature)
    tokens = Counter(token for group in groups for token in group)
    assert abs(deviations(tokens, {t: p * GROUPS * ROLLOUTS for t, p in enumerate(exact)})) < CRITICAL

    alike = sum(a == b for group in groups for a, b in combinations(group, 2))
    pairs = GROUPS * ROLLOUTS * (ROLLOUTS - 1) / 2
    same, cubes = sum(p**2 for p in exact), sum(p**3 for p in exact)
    variance = same * (1 - same) + 2 * (ROLLOUTS - 2) * (cubes - same**2)  # pairs of a group share rollouts
    assert abs(alike - pairs * same) < CRITICAL * (pairs * variance) ** 0.5


def test_no_noise_is_used_twice(monkeypatch):
    drawn, rand = [], torch.rand
    monkeypatch.setattr(torch, "rand", lambda *args, **options: drawn.append(rand(*args, **options)) or drawn[-1])
    engine = Engine(build_model(), 5, 2**24, torch.Generator().manual_seed(3))
    for key in range(12):
        engine.add(key, Prompt(PROMPT, 1 + key % 4, frozenset(), 1.0))
    while engine.unanswered:
        engine.step()
    noise = torch.cat(drawn).flatten().tolist()
    assert len(noise) == len(set(noise)) == engine.counts.tokens


async def test_a_seed_is_for_the_first_start_in_a_folder(config, tmp_path, monkeypatch):
    seeds = []

    async def start_processes(config, *_):
        seeds.append(config.seed)
        raise UserError("seen enough")

    monkeypatch.setattr("shared.policy.policy.start_processes", start_processes)
    seeded = config.model_copy(update={"seed": 7})
    for _ in range(2):
        with pytest.raises(UserError, match="seen enough"):
            await Policy.start(seeded, tmp_path / "p", "r", "planner", total_steps=1, resume=True)
    assert seeds == [7, None]


async def test_every_start_of_a_replica_has_a_seed_of_its_own(config, tmp_path, monkeypatch):
    starts = []
    monkeypatch.setattr("shared.policy.pool.start.SamplerPool", lambda start, *_: starts.append(start))
    monkeypatch.setattr("shared.policy.pool.start.RemoteChild", lambda kind, name, settings, *_: settings)
    cluster = SimpleNamespace(keep=lambda: None)
    pool: Any = RayPool(config.model_copy(update={"seed": 7}), cluster, 1)  # ty: ignore
    pool.sampler(tmp_path, tmp_path)
    (start,) = starts
    seeds = [(await start(place))._child["seed"] for place in (0, 1, 0)]
    assert len(set(seeds)) == 3
