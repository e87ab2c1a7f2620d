import math

import pytest

from shared.errors import InvalidInput
from shared.mgrpo.rewards import correct_main, executor_reward, planner_reward
from shared.schemas.run import ExecutorReward, PlannerReward

from .vectors import load

VECTORS = load("rewards")


@pytest.mark.parametrize("case", VECTORS["planner"])
def test_planner_vectors(case):
    assert planner_reward(case["format"], case["correct"], PlannerReward()) == pytest.approx(case["reward"], abs=1e-6)


@pytest.mark.parametrize("case", VECTORS["executor"])
def test_executor_vectors(case):
    reward = executor_reward(case["format"], case["correct_main"], case["expert"], ExecutorReward())
    assert reward == pytest.approx(case["reward"], abs=1e-6)


def test_the_coefficients_are_used():
    assert planner_reward(1, 1.0, PlannerReward(format=0.25, correct=0.75)) == 1.0
    assert planner_reward(1, 0.0, PlannerReward(format=0.25, correct=0.75)) == 0.25
    assert executor_reward(1, 0.0, 1.0, ExecutorReward(format=0.2, correct_main=0.5, expert=0.3)) == pytest.approx(0.5)


def test_an_invalid_planner_shares_no_correctness():
    assert correct_main(0, 1.0) == 0
    assert correct_main(1, 0.5) == 0.5


def test_an_expert_score_is_missing_only_where_the_format_is_invalid():
    with pytest.raises(InvalidInput, match="r_expert is missing"):
        executor_reward(1, 1.0, None, ExecutorReward())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 1.1])
def test_a_score_outside_its_range_is_refused_even_where_the_gate_is_shut(bad):
    for r_format in (0, 1):
        with pytest.raises(InvalidInput, match="r_correct "):
            planner_reward(r_format, bad, PlannerReward())
        with pytest.raises(InvalidInput, match="r_correct_main"):
            executor_reward(r_format, bad, 0.5, ExecutorReward())
        with pytest.raises(InvalidInput, match="r_expert"):
            executor_reward(r_format, 0.5, bad, ExecutorReward())
    with pytest.raises(InvalidInput, match="r_format"):
        planner_reward(2, 0.5, PlannerReward())
