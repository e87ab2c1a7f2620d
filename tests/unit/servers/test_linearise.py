"""A rollout's tree as rows: whatever it delegated, it has the mass of one row, and its own advantage."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_server.linearise import linearise
from shared.errors import InvalidInput
from shared.mgrpo.advantages import group_advantages

WIDTHS = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def trees(widths: list[int]) -> dict[str, list[str]]:
    return {f"r{k}": [f"r{k}-{d}" for d in range(width)] for k, width in enumerate(widths)}


@given(WIDTHS)
def test_every_trajectory_is_one_row_and_every_rollout_weighs_one(widths: list[int]):
    rows = linearise(trees(widths))
    assert [row.trajectory for row in rows] == [t for root, below in trees(widths).items() for t in (root, *below)]
    assert all(row.trajectory.startswith(row.rollout) for row in rows)
    assert Counter(row.rollout for row in rows) == {f"r{k}": 1 + width for k, width in enumerate(widths)}
    for rollout in trees(widths):
        weights = [row.weight for row in rows if row.rollout == rollout]
        assert len(set(weights)) == 1
        assert math.fsum(weights) == pytest.approx(1.0)


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0, 1)), min_size=2, max_size=8))
def test_the_baseline_over_the_rollouts_is_that_over_the_weighted_rows(group: list[tuple[int, float]]):
    rewards = {f"r{k}": reward for k, (_, reward) in enumerate(group)}
    rows = linearise(trees([width for width, _ in group]))
    over_rollouts = group_advantages(list(rewards.values()))
    over_rows = group_advantages([rewards[row.rollout] for row in rows], [row.weight for row in rows])
    assert over_rows.mean == pytest.approx(over_rollouts.mean)
    assert over_rows.std == pytest.approx(over_rollouts.std)


def test_a_rollout_without_a_delegation_is_one_row():
    assert [(row.trajectory, row.rollout, row.weight) for row in linearise({"r": ()})] == [("r", "r", 1.0)]


@pytest.mark.parametrize("trees", [{"r": ["a", "a"]}, {"r": ["a"], "s": ["a"]}, {"r": ["r"]}])
def test_a_trajectory_that_stands_twice_is_refused(trees: dict[str, list[str]]):
    with pytest.raises(InvalidInput, match="twice"):
        linearise(trees)
