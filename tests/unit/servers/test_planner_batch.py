"""The planner's rows: one a rollout, advantages over the group, a fate for every trajectory."""

import pytest

from planner_server.batch import planner_batch
from shared.policy.policy import UpdateResult
from shared.schemas.run import Budget, PlannerReward, RunSpec

from .deliveries import OLD, aborted, delivery, group, rollout, stored, tree, uuid

SPEC = RunSpec(steps=10, staleness=1)


def test_advantages_are_those_of_the_group():
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12), rollout(13), rollout(14, r_format=0)))
    batch = planner_batch(view, stored(view), SPEC, updates=5)
    assert [row.trajectory for row in batch.rows] == [uuid(n) for n in (11, 12, 13, 14)]
    assert [row.advantage for row in batch.rows] == pytest.approx([1.723281, -0.492366, -0.492366, -0.738549], abs=1e-6)
    assert [(row.multiplicity, row.dead) for row in batch.rows] == [(1.0, False)] * 4
    assert batch.fates == {uuid(n): 1 for n in (11, 12, 13, 14)}
    assert batch.statistics["reward_mean"] == pytest.approx(0.3)
    assert batch.statistics["reward_deviation"] == pytest.approx(0.406202, abs=1e-6)
    assert batch.statistics["reward_variance_between"] == pytest.approx(0.406202**2, abs=1e-6)
    assert batch.statistics["reward_variance_within"] == pytest.approx(0.0)
    assert (batch.statistics["groups"], batch.statistics["groups_dead"]) == (1, 0)
    assert batch.statistics["correct_mean"] == 0.25
    assert batch.histograms["staleness"] == {"0": 4}


def test_a_dead_group_is_named_and_counts_in_the_denominator_only():
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12, 1.0)), group(2, rollout(21, 1.0), rollout(22)))
    batch = planner_batch(view, stored(view), SPEC, updates=5)
    assert [row.dead for row in batch.rows] == [True, True, False, False]
    assert batch.fates == {uuid(11): "dead-group", uuid(12): "dead-group", uuid(21): 1, uuid(22): 1}
    assert batch.statistics["groups_dead"] == 1


def test_a_rollout_whose_policy_delegated_to_itself_is_a_row_for_each_trajectory():
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12)))
    batch = planner_batch(view, stored(view) | tree(11, 111, 112), SPEC, updates=5)
    assert [(row.trajectory, row.advantage) for row in batch.rows] == [
        *((uuid(n), pytest.approx(1.0)) for n in (11, 111, 112)),
        (uuid(12), pytest.approx(-1.0)),
    ]
    assert [row.multiplicity for row in batch.rows] == pytest.approx([1 / 3] * 3 + [1.0])
    assert batch.fates == {uuid(11): 1, uuid(12): 1}
    assert (batch.statistics["rows_distinct"], batch.statistics["rows_delegated"]) == (4, 2)
    assert batch.statistics["delegated_format_mean"] == 0.5
    assert (batch.statistics["calls_mean"], batch.histograms["calls_per_rollout"]) == (1.0, {"2": 1, "0": 1})
    assert batch.statistics["reward_mean"] == pytest.approx(0.55)


def test_a_rollout_of_which_a_part_is_lost_is_lost():
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12), rollout(13)))
    whole = stored(view) | tree(11, 111, 112)
    del whole[uuid(112)]
    batch = planner_batch(view, whole, SPEC, updates=5)
    assert batch.fates == {uuid(11): "lost", uuid(12): "dead-group", uuid(13): "dead-group"}
    assert uuid(111) not in {row.trajectory for row in batch.rows}


def test_the_optional_terms_tell_right_rollouts_apart_and_wrong_ones_not():
    costly = PlannerReward(correct=0.7, efficiency=0.2, budget=Budget(calls=4))
    spec = SPEC.model_copy(update={"planner_reward": costly})
    right = [rollout(11, 1.0, r_efficiency=1.0), rollout(12, 1.0, r_efficiency=0.5)]
    wrong = [rollout(21, 0.0, r_efficiency=1.0), rollout(22, 0.0, r_efficiency=0.0)]
    view = delivery("planner", group(1, *right), group(2, *wrong))
    batch = planner_batch(view, stored(view), spec, updates=5)
    assert [row.advantage for row in batch.rows] == pytest.approx([1.0, -1.0, 0.0, 0.0])
    assert [batch.fates[uuid(number)] for number in (11, 12, 21, 22)] == [1, 1, "dead-group", "dead-group"]
    assert batch.statistics["reward_mean"] == pytest.approx((1.0 + 0.9 + 0.1 + 0.1) / 4)
    assert batch.statistics["efficiency_mean"] == pytest.approx(0.625)
    assert "diversity_mean" not in batch.statistics


def test_a_stale_row_leaves_before_the_baseline_and_one_row_alone_is_dead():
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12, version=OLD)))
    batch = planner_batch(view, stored(view), SPEC, updates=5)
    assert batch.fates == {uuid(11): "dead-group", uuid(12): "stale"}
    assert [row.trajectory for row in batch.rows] == [uuid(11)]
    assert batch.histograms["staleness"] == {"0": 1, "2": 1}
    assert (batch.statistics["staleness_mean"], batch.statistics["staleness_max"]) == (1.0, 2)


def test_discarded_aborted_and_lost():
    view = delivery(
        "planner",
        group(1, rollout(11, 1.0), state="discarded"),
        group(2, rollout(21, 1.0), rollout(22), aborted(23), rollout(24)),
    )
    batch = planner_batch(view, stored(view, 24), SPEC, updates=5)
    assert batch.fates == {uuid(11): "discarded", uuid(21): 1, uuid(22): 1, uuid(24): "lost"}
    assert batch.statistics["rollouts_aborted"] == 1
    assert batch.statistics["groups_discarded"] == 1


def test_an_empty_batch_and_one_without_a_live_row_are_skipped_with_their_reason():
    skipped = UpdateResult(5, {}, skipped=True)
    empty = planner_batch(delivery("planner"), {}, SPEC, updates=5).ack(1, 6, skipped)
    assert (empty.outcome, empty.reason, empty.fates) == ("skipped", "empty-batch", {})
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12, 1.0)))
    dead = planner_batch(view, stored(view), SPEC, updates=5).ack(1, 6, skipped)
    assert (dead.outcome, dead.reason, dead.updates) == ("skipped", "all-dead", 5)
    assert dead.histograms["fates"] == {"dead-group": 2}


def test_the_ack_is_what_crosses_the_wire():
    view = delivery("planner", group(1, rollout(11, 1.0), rollout(12)))
    batch = planner_batch(view, stored(view), SPEC, updates=5)
    ack = batch.ack(1, 6, UpdateResult(6, {"gap_mean": 0.5}))
    assert type(ack).model_validate_json(ack.model_dump_json()) == ack
    assert (ack.outcome, ack.reason, ack.updates) == ("trained", None, 6)
    assert ack.statistics["gap_mean"] == 0.5
    assert ack.histograms["fates"] == {"trained": 2}
    assert ack.statistics["unique_action_rate"] == 1.0
