import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidInput
from shared.mgrpo.advantages import group_advantages

from .vectors import load

VECTORS = load("advantages")
REWARDS = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def flat(by_rollout):
    return [value for values in by_rollout.values() for value in values]


def check(baseline, case, advantages):
    assert baseline.dead is case["dead"]
    assert baseline.mean == (case["mean"] if case["mean"] is None else pytest.approx(case["mean"], abs=1e-6))
    assert baseline.std == (case["std"] if case["std"] is None else pytest.approx(case["std"], abs=1e-6))
    assert baseline.advantages == pytest.approx(advantages, abs=1e-6)


@pytest.mark.parametrize("case", VECTORS["planner"])
def test_planner_vectors(case):
    check(group_advantages(case["rewards"]), case, case["advantages"])


@pytest.mark.parametrize("case", VECTORS["executor"])
def test_executor_vectors(case):
    multiplicities = flat(case["multiplicity"])
    assert sum(multiplicities) == pytest.approx(case["rows"])
    check(group_advantages(flat(case["rollouts"]), multiplicities), case, flat(case["advantages"]))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=20))
def test_multiplicities_are_rows_that_really_stand_there(rows):
    rewards, counts = [r for r, _ in rows], [m for _, m in rows]
    copied = np.repeat(np.array(rewards), counts)
    baseline = group_advantages(rewards, counts)
    if copied.size == 0:
        assert (baseline.mean, baseline.std, baseline.dead) == (None, None, True)
        return
    assert baseline.mean == pytest.approx(copied.mean(), abs=1e-9)
    assert baseline.std == pytest.approx(copied.std(), abs=1e-9)


@given(REWARDS, st.data())
def test_a_live_group_has_advantages_of_mean_0_and_mean_square_1(rewards, data):
    weights = data.draw(st.lists(st.floats(0, 8), min_size=len(rewards), max_size=len(rewards)))
    baseline = group_advantages(rewards, weights)
    if baseline.dead:
        assert baseline.advantages == [0.0] * len(rewards)
        return
    total = sum(weights)
    assert sum(w * a for w, a in zip(weights, baseline.advantages, strict=True)) / total == pytest.approx(0, abs=1e-6)
    squares = sum(w * a * a for w, a in zip(weights, baseline.advantages, strict=True))
    assert squares / total == pytest.approx(1, abs=1e-6)


def test_a_deviation_under_a_millionth_is_dead_and_over_it_is_not():
    assert group_advantages([0.5, 0.5 + 1.9e-6]).dead
    assert not group_advantages([0.5, 0.5 + 2.1e-6]).dead


def test_a_single_row_and_no_row_are_dead():
    assert group_advantages([0.7]).dead
    assert group_advantages([]).advantages == []
    assert group_advantages([]).dead


def test_a_dropped_row_moves_no_statistic():
    without, dropped = group_advantages([0.1, 0.9]), group_advantages([0.1, 0.9, 0.0], [1, 1, 0])
    assert (without.mean, without.std) == (dropped.mean, dropped.std)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_refused(bad):
    with pytest.raises(InvalidInput, match="reward"):
        group_advantages([0.5, bad])


def test_bad_multiplicities_are_refused():
    with pytest.raises(InvalidInput, match="multiplicity"):
        group_advantages([0.5, 0.1], [1, -1])
    with pytest.raises(InvalidInput, match="2 rewards, but 1"):
        group_advantages([0.5, 0.1], [1])
