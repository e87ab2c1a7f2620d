"""What a rollout earns for the optional reward terms, of a pair and of one model."""

from dataclasses import replace

import pytest

from planner_server.delegation import DELEGATE, Delegation
from planner_server.rollout import Rollout
from planner_server.terms import term_scores
from shared.agents.loop import Episode
from shared.agents.toolbox import Toolbox
from shared.environments.base import ToolCall, ToolResult
from shared.policy.types import SamplingParams
from shared.schemas.base import PolicyVersion
from shared.schemas.invocation import InvocationAnswer, InvocationRequest
from shared.schemas.run import Budget, PlannerReward
from tests.unit.servers.deliveries import uuid

SHARES = {"correct": 0.6, "protocol": 0.1, "efficiency": 0.1, "diversity": 0.1}


def reward(**budget: float) -> PlannerReward:
    return PlannerReward(**SHARES, budget=Budget(**budget))  # ty: ignore[invalid-argument-type]


def episode(*calls: ToolCall, sampled: int = 6) -> Episode:
    mask = [0, 0] + [1] * sampled
    return Episode(
        token_ids=mask,
        mask=mask,
        logprobs=[-0.5] * len(mask),
        version=PolicyVersion(epoch=1, step=0, updates=0),
        messages=[],
        calls=calls,
        answer="4",
        r_format=1,
        reason=None,
        status="ok",
        turns=2,
        params=SamplingParams(max_new_tokens=8),
    )


def delegate(subtask: object, state: str = "ok") -> ToolCall:
    return ToolCall("delegate", {"task": subtask}, ToolResult(state, "4"))  # ty: ignore[invalid-argument-type]


def delegation(number: int, subtask: str, status: str = "ok", own: Episode | None = None) -> Delegation:
    request = InvocationRequest(run="r", rollout=uuid(1), index=number, subtask=subtask, task_id="t")
    answer = InvocationAnswer(status=status, answer="4", r_format=1)  # ty: ignore[invalid-argument-type]
    return Delegation(uuid(number), request, answer, own)


def test_only_the_terms_that_are_on_are_scored():
    rollout = Rollout(uuid(1), episode(), 1.0, 0, 2.0)
    assert term_scores(rollout, PlannerReward(), DELEGATE) == {}
    costly = PlannerReward(correct=0.8, efficiency=0.1, budget=Budget(calls=4))
    assert term_scores(rollout, costly, DELEGATE) == {"efficiency": 1.0}
    assert set(term_scores(rollout, reward(calls=4), DELEGATE).values()) == {1.0}


def test_a_pair_pays_for_refused_calls_and_for_answers_asked_for_twice():
    calls = [delegate("a"), delegate("A "), delegate(None, "error"), ToolCall("fly", {}, ToolResult("error", "no"))]
    made = (delegation(1, "a"), delegation(2, "A "))
    rollout = Rollout(uuid(1), episode(*calls), 1.0, 2, 3.0, made)
    assert term_scores(rollout, reward(calls=8), DELEGATE) == {"protocol": 0.5, "efficiency": 0.5, "diversity": 0.5}


@pytest.mark.parametrize("status", ["error", "limit"])
def test_a_delegation_that_failed_may_be_made_again(status: str):
    rollout = Rollout(uuid(1), episode(), 1.0, 2, 3.0, (delegation(1, "a", status), delegation(2, "a")))
    assert term_scores(rollout, reward(calls=4), DELEGATE)["diversity"] == 1.0


@pytest.mark.parametrize(
    ("budget", "score"), [({"tokens": 24}, 0.75), ({"seconds": 6.0}, 0.5), ({"tokens": 24, "seconds": 6.0}, 0.625)]
)
def test_tokens_are_the_sampled_ones_and_seconds_those_of_the_episode(budget: dict[str, float], score: float):
    assert term_scores(Rollout(uuid(1), episode(), 1.0, 0, 3.0), reward(**budget), DELEGATE)["efficiency"] == score


def test_one_policy_in_both_seats_pays_for_the_tokens_of_both():
    below = delegation(1, "a", own=episode(sampled=6))
    rollout = Rollout(uuid(1), episode(delegate("a")), 1.0, 1, 3.0, (below,))
    assert term_scores(rollout, reward(tokens=24), DELEGATE)["efficiency"] == 0.5
    remote = replace(rollout, delegations=(replace(below, episode=None),))
    assert term_scores(remote, reward(tokens=24), DELEGATE)["efficiency"] == 0.75


def test_a_model_with_the_tools_itself_is_judged_by_its_own_tools():
    def search(query: str) -> str:
        """Find."""
        return query

    calls = [ToolCall("search", {"query": "a"}, ToolResult("ok", "a"))] * 2 + [delegate("a", "error")]
    scores = term_scores(Rollout(uuid(1), episode(*calls), 1.0, 3, 1.0), reward(calls=4), Toolbox({"search": search}))
    assert scores == {"protocol": pytest.approx(2 / 3), "efficiency": 0.25, "diversity": 1.0}
