"""The verdict as a decision: which state, which reason, which advice, from what is known of a run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.schemas.run import RunSpec, Wait
from shared.schemas.verdict import Pace
from sync_service.operations.findings import Facts
from sync_service.operations.verdict import judge
from sync_service.store.runs import Run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = RunSpec(steps=100, d_max=4)
EVEN = Pace(acked_step=12, step_s=60.0, training_s=20.0, waiting_s=0.1, idle=0.5)
FACTS = Facts(
    spec=SPEC,
    now=NOW,
    stall_s=300.0,
    waits=(),
    lost=(),
    paces={"planner": EVEN, "executor": EVEN},
    learning="LEARNING",
    statistics={},
    calls={1: 100},
    scores_s=1.0,
)


def wait(code: str, age_s: float, *, who: str = "executor", whom: str = "trainer", stalled: bool = False) -> Wait:
    since = (NOW - timedelta(seconds=age_s)).isoformat()
    return Wait(code=code, who=who, whom=whom, count=3, since=since, stalled=stalled, text=f"{who} waits")


def pace(training_s: float, idle: float) -> Pace:
    return EVEN.model_copy(update={"training_s": training_s, "idle": idle})


SLOW = {"paces": {"planner": pace(4.0, 0.8), "executor": pace(12.0, 0.1)}}


@pytest.mark.parametrize(
    ("changes", "state", "why", "advice"),
    [
        ({}, "OK", "step 12 of 100 is trained by every role", None),
        (
            {"waits": [wait("no-trainer", 94)]},
            "DEGRADED",
            "executor has had no lease for 94 s; 3 batches are ready",
            "start the executor server",
        ),
        ({"waits": [wait("no-trainer", 5)]}, "OK", "step 12", None),
        ({"waits": [wait("no-trainer", 301, stalled=True)]}, "STALLED", "no lease for 5 min", "start the executor"),
        ({"waits": [wait("scores", 151)]}, "DEGRADED", "executor waits, for 3 min", "judge"),
        ({"waits": [wait("open-groups", 149)]}, "OK", "step 12", None),
        ({"waits": [wait("dead-delivery", 1)]}, "STALLED", "executor waits", "requeue"),
        ({"lost": ["gpu-7"]}, "DEGRADED", "worker gpu-7 is lost", "gpu-7"),
        ({"learning": "NOT LEARNING"}, "NOT LEARNING", "over 90%", "easier tasks"),
        ({"learning": "SATURATED"}, "OK", "saturated", "harder tasks"),
        (
            {"statistics": {"planner": [{"groups": 8, "groups_dead": 5, "correct_mean": 0.1}]}},
            "OK",
            "62% of the planner's groups are dead, unsolved",
            "easier",
        ),
        (
            {"statistics": {"planner": [{"groups": 8, "groups_dead": 5, "correct_mean": 0.9}]}},
            "OK",
            "dead, solved",
            "harder",
        ),
        (
            {"statistics": {"planner": [{"rollouts": 64, "rollouts_aborted": 16}]}},
            "DEGRADED",
            "25% of the rollouts are aborted",
            "see why",
        ),
        (
            {"statistics": {"executor": [{"trajectories": 10, "trajectories_unscored": 2}]}},
            "DEGRADED",
            "20% of the executor's trajectories have no score",
            "judge",
        ),
        ({"statistics": {"executor": [{"gap_mean": 0.4}]}}, "DEGRADED", "by 0.40 nats", "one precision"),
        ({"statistics": {"executor": [{"gap_mean": 0.04}]}}, "OK", "step 12", None),
        (
            {"calls": {1: 90, 5: 9, 9: 1}},
            "DEGRADED",
            "90% of the rollouts make at most d_max = 4",
            "raise d_max in the next run: 5 calls",
        ),
        ({"calls": {1: 9, 5: 1}}, "OK", "step 12", None),
        (
            {"calls": {9: 100}, "spec": RunSpec(steps=100, cutter="arrival", alignment="none")},
            "OK",
            "step 12",
            None,
        ),
        (SLOW, "OK", "executor is 3.0x slower: it trains a step in 12 s, the planner in 4.0 s", "add trainer shards"),
        (
            SLOW | {"waits": [wait("live-step", 1, who="planner", whom="executor")]},
            "OK",
            "rollouts wait for it",
            "raise staleness",
        ),
        (
            {"paces": {"planner": pace(4.0, 0.8), "executor": pace(4.0, 0.7)}},
            "OK",
            "trainers wait for rollouts: the planner's 80% of the time, the executor's 70%",
            "add samplers",
        ),
        ({"scores_s": 40.0}, "OK", "scores come 40 s after the rollouts", "judge faster"),
    ],
)
def test_the_state_says_why_and_what_to_do(changes: dict[str, Any], state: str, why: str, advice: str | None) -> None:
    facts = replace(FACTS, **changes)
    found = judge(Run("walk", facts.spec, "running", None), facts, {"planner": 88, "executor": 88})
    assert found.state == state
    assert why in "\n".join(found.why)
    assert ([text for text in found.advice if advice in text] != []) if advice else found.advice == ()


def test_the_worst_is_said_first() -> None:
    facts = replace(FACTS, lost=["gpu-7"], learning="NOT LEARNING", waits=[wait("no-trainer", 400, stalled=True)])
    found = judge(Run("walk", SPEC, "running", None), facts, {})
    assert found.state == "STALLED"
    assert [text.split()[0] for text in found.why] == ["executor", "over", "worker"]


@pytest.mark.parametrize(
    ("run_state", "state", "why"),
    [
        ("declared", "IDLE", "no group is opened yet"),
        ("paused", "PAUSED", "paused"),
        ("finished", "FINISHED", "every batch"),
        ("failed", "FAILED", "ended: gave-up"),
        ("purging", "FINISHED", "deleted"),
        ("draining", "OK", "the run drains"),
    ],
)
def test_a_run_that_rests_is_not_judged_by_what_it_waits_for(run_state: str, state: str, why: str) -> None:
    facts = replace(FACTS, lost=[] if run_state == "draining" else ["gpu-7"])
    found = judge(Run("walk", SPEC, run_state, "gave-up"), facts, {"planner": 0, "executor": 0})
    assert (found.state, len(found.why)) == (state, 1)
    assert why in found.why[0]


def test_the_time_to_finish_is_that_of_the_slower_role() -> None:
    paces = {"planner": EVEN, "executor": EVEN.model_copy(update={"acked_step": 10, "step_s": 90.0})}
    found = judge(Run("walk", SPEC, "running", None), replace(FACTS, paces=paces), {"planner": 88, "executor": 90})
    assert (found.step, found.steps, found.seconds_left) == (10, 100, 8100.0)
    stalled = replace(FACTS, paces=paces, waits=[wait("no-trainer", 400, stalled=True)])
    assert judge(Run("walk", SPEC, "running", None), stalled, {"planner": 88, "executor": 90}).seconds_left is None
