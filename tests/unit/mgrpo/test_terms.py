"""The optional terms of the planner's reward: bounds, what they pay for, and that off is as if they were not there."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.errors import InvalidInput
from shared.mgrpo.formula import executor_formula, planner_formula
from shared.mgrpo.rewards import planner_reward
from shared.mgrpo.terms import Used, diversity_score, efficiency_score, protocol_score
from shared.schemas.run import TERMS, Budget, ExecutorReward, PlannerReward

UNIT = st.floats(0, 1)
TEXTS = st.lists(st.sampled_from(["a b", "A  b", "b", "c ", "c", ""]), max_size=12)
USED = st.builds(Used, calls=st.integers(0, 40), tokens=st.integers(0, 9000), seconds=st.floats(0, 900))
BUDGETS = st.builds(
    Budget,
    calls=st.none() | st.integers(1, 32),
    tokens=st.none() | st.integers(1, 4000),
    seconds=st.none() | st.floats(0.5, 600),
).filter(lambda budget: budget != Budget())


@dataclass(frozen=True)
class Scores:
    r_protocol: float | None = None
    r_efficiency: float | None = None
    r_diversity: float | None = None


SCORES = st.builds(Scores, UNIT, UNIT, UNIT)


@st.composite
def rewards(draw: st.DrawFn) -> PlannerReward:
    """Any that is taken: shares of one, of which `correct` has more than `protocol`."""
    shares = [draw(st.integers(0, 20)) for _ in range(5)]
    shares[1] += shares[2] + 1
    weights = dict(zip(("format", "correct", *TERMS), (share / sum(shares) for share in shares), strict=True))
    return PlannerReward(**weights, budget=Budget(calls=8) if weights["efficiency"] else None)


@given(rewards(), UNIT, SCORES)
def test_a_reward_is_in_its_bounds_and_nothing_at_an_invalid_format(reward, correct, scores):
    assert 0 <= planner_reward(1, correct, reward, scores) <= 1 + 1e-9
    assert planner_reward(0, correct, reward, scores) == 0.0


@given(rewards(), SCORES, SCORES)
def test_a_right_answer_is_worth_more_than_a_wrong_one_whatever_it_cost(reward, right, wrong):
    assert planner_reward(1, 1.0, reward, right) > planner_reward(1, 0.0, reward, wrong)


@given(rewards(), SCORES, SCORES)
def test_a_wrong_answer_earns_nothing_by_being_cheap_or_varied(reward, one, other):
    other = replace(other, r_protocol=one.r_protocol)
    assert planner_reward(1, 0.0, reward, one) == planner_reward(1, 0.0, reward, other)


@given(rewards(), UNIT, SCORES, st.sampled_from(TERMS), UNIT)
def test_a_higher_score_of_a_term_earns_no_less(reward, correct, scores, term, score):
    low, high = sorted((score, getattr(scores, f"r_{term}")))
    earned = [planner_reward(1, correct, reward, replace(scores, **{f"r_{term}": value})) for value in (low, high)]
    assert earned[0] <= earned[1]


@given(st.sampled_from([0, 1]), UNIT, UNIT, SCORES)
def test_off_is_to_the_bit_as_if_there_were_no_terms(r_format, correct, share, scores):
    off = PlannerReward(format=share, correct=1 - share)
    plain = share + (1 - share) * correct if r_format else 0.0
    assert planner_reward(r_format, correct, off, scores) == planner_reward(r_format, correct, off) == plain


def test_a_score_that_is_missing_or_out_of_bounds_is_refused():
    reward = PlannerReward(correct=0.8, diversity=0.1)
    with pytest.raises(InvalidInput, match="r_diversity is missing"):
        planner_reward(1, 1.0, reward, Scores(r_efficiency=1.0))
    for r_format in (0, 1):
        with pytest.raises(InvalidInput, match="r_diversity is in"):
            planner_reward(r_format, 1.0, reward, Scores(r_diversity=float("nan")))


@given(USED, BUDGETS)
def test_efficiency_is_in_its_bounds_and_falls_with_all_that_is_used(used, budget):
    score = efficiency_score(used, budget)
    assert 0 <= score <= 1
    for name in ("calls", "tokens", "seconds"):
        more = efficiency_score(replace(used, **{name: getattr(used, name) + 1}), budget)
        assert more <= score if getattr(budget, name) else more == score


def test_each_call_costs_the_same_until_the_budget_is_used():
    scores = [efficiency_score(Used(calls, 500, 3.0), Budget(calls=4)) for calls in range(7)]
    assert scores == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0]
    assert efficiency_score(Used(1, 500, 3.0), Budget(calls=4, tokens=1000, seconds=2.0)) == pytest.approx(
        1 - (0.25 + 0.5 + 1) / 3
    )


@given(TEXTS)
def test_diversity_falls_with_a_repeated_delegation_and_knows_no_order(texts):
    score = diversity_score(texts)
    assert 0 <= score <= 1
    assert diversity_score(texts[::-1]) == score
    assert diversity_score([*texts, "new"]) >= score
    if texts:
        assert diversity_score([*texts, texts[0].upper() + " "]) < diversity_score([*texts, "new"])


@given(st.integers(0, 30), st.integers(0, 30))
def test_compliance_falls_with_each_call_that_could_not_be_run(good, refused):
    score = protocol_score(good + refused, refused)
    assert 0 <= score <= 1
    assert protocol_score(good + refused + 1, refused + 1) <= score <= protocol_score(good + refused + 1, refused)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"efficiency": 0.1, "budget": Budget(calls=8)}, "sum to 1"),
        ({"correct": 0.8, "efficiency": 0.1}, "needs a budget"),
        ({"correct": 0.8, "efficiency": 0.1, "budget": Budget()}, "needs a budget"),
        ({"budget": Budget(calls=8)}, "goes with efficiency"),
        ({"correct": 0.45, "protocol": 0.45}, "correct must exceed protocol"),
        ({"correct": 0.0, "diversity": 0.9}, "correct must exceed protocol"),
        ({"correct": 1.0, "format": 0.1, "protocol": -0.1}, "greater than or equal to 0"),
    ],
)
def test_a_reward_that_makes_no_sense_is_refused(changes, why):
    with pytest.raises(ValidationError, match=why):
        PlannerReward(**changes)


def test_the_formula_says_what_is_in_force():
    assert planner_formula(PlannerReward()) == "R_M = r_format*(0.1 + 0.9*r_correct)"
    assert executor_formula(ExecutorReward()) == "R_S = r_format*(0.1 + 0.4*r_correct_main + 0.5*r_expert)"
    costly = PlannerReward(correct=0.7, efficiency=0.2, budget=Budget(calls=8))
    assert planner_formula(costly) == (
        "R_M = r_format*(0.1 + 0.7*r_correct + 0.2*r_correct*r_efficiency); r_efficiency = 1 - min(1, calls/8)"
    )
    budget = Budget(calls=8, seconds=30.0)
    every = PlannerReward(format=0.0, correct=0.7, protocol=0.1, efficiency=0.1, diversity=0.1, budget=budget)
    assert planner_formula(every).split("; ") == [
        "R_M = r_format*(0.7*r_correct + 0.1*r_protocol + 0.1*r_correct*r_efficiency + 0.1*r_correct*r_diversity)",
        "r_protocol = share of calls that name a tool and fit its parameters",
        "r_efficiency = 1 - (min(1, calls/8) + min(1, seconds/30))/2",
        "r_diversity = share of answered delegations that repeat none",
    ]
