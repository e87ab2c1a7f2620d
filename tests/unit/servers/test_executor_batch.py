"""The executor's rows: stale ones leave, then rewards, alignment and pooled baselines; a fate for every trajectory."""

import pytest

from executor_server.batch import executor_batch
from shared.mgrpo.advantages import group_advantages
from shared.schemas.run import RunSpec

from .deliveries import OLD, aborted, delivery, group, rollout, stored, trajectory, uuid


def spec(**changes) -> RunSpec:
    return RunSpec(**{"steps": 10, "staleness": 1, "d_max": 4} | changes)


def test_the_papers_example_of_pooled_aligned_rows():
    """Rollout A: one call of reward 1; rollout B: four of reward 0 (but for format, here invalid): A = +1 / -1."""
    a = rollout(11, 1.0, (trajectory(111, 1.0),))
    b = rollout(12, 0.0, tuple(trajectory(120 + i, None, r_format=0) for i in range(4)))
    view = delivery("executor", group(1, a, b))
    batch = executor_batch(view, stored(view), spec(), updates=5)
    advantages = {row.trajectory: row.advantage for row in batch.rows}
    assert advantages == {uuid(111): pytest.approx(1.0)} | {uuid(120 + i): pytest.approx(-1.0) for i in range(4)}
    assert {row.trajectory: row.multiplicity for row in batch.rows}[uuid(111)] == 4.0
    assert batch.fates == {uuid(111): 4} | {uuid(120 + i): 1 for i in range(4)}
    statistics = batch.statistics
    assert (statistics["rows_copied"], statistics["rows_dropped"], statistics["rows_masked"]) == (3, 0, 0)
    assert (statistics["rows_distinct"], statistics["reward_mean"]) == (5, pytest.approx(0.5))
    assert statistics["effective_sample_size"] == pytest.approx(8**2 / (16 + 4))
    assert batch.histograms["calls_per_rollout"] == {"1": 1, "4": 1}


def test_shared_fate_is_gated_by_the_planners_format_and_weighs_with_the_expert():
    right = rollout(11, 1.0, (trajectory(111, 0.8),))
    broken = rollout(12, 1.0, (trajectory(121, 0.8),), r_format=0)
    view = delivery("executor", group(1, right, broken))
    batch = executor_batch(view, stored(view), spec(d_max=1), updates=5)
    expected = group_advantages([0.9, 0.5])
    assert [row.advantage for row in batch.rows] == pytest.approx(expected.advantages)
    assert batch.statistics["reward_mean"] == pytest.approx(0.7)
    assert batch.statistics["reward_variance_between"] == pytest.approx(0.04)


def test_no_call_and_aborted_rollouts_are_masked_and_lend_nothing():
    called = rollout(11, 1.0, (trajectory(111, 1.0), trajectory(112, 0.0)))
    view = delivery("executor", group(1, called, rollout(12), aborted(13, (trajectory(131),))))
    batch = executor_batch(view, stored(view), spec(), updates=5)
    assert batch.statistics["rows_masked"] == 8
    assert batch.statistics["rows_copied"] == 2
    assert batch.fates[uuid(131)] == "aborted"
    assert sum(row.multiplicity for row in batch.rows) == 4
    assert batch.histograms["calls_per_rollout"] == {"2": 1, "0": 1}


def test_above_d_max_some_are_dropped():
    many = rollout(11, 1.0, tuple(trajectory(110 + i, i / 10) for i in range(6)))
    view = delivery("executor", group(1, many))
    batch = executor_batch(view, stored(view), spec(), updates=5)
    assert batch.statistics["rows_dropped"] == 2
    assert sorted(map(str, batch.fates.values())) == ["1"] * 4 + ["alignment-dropped"] * 2
    assert len(batch.rows) == 4


def test_stale_unscored_missing_and_lost_rows_are_not_in_d_k():
    rows = (
        trajectory(111, 1.0),
        trajectory(112, 0.0, version=OLD),
        trajectory(113, None, state="unscored", r_format=None),
        trajectory(114, None, state="awaited", r_format=None, version=None),
        trajectory(115, 1.0),
    )
    view = delivery("executor", group(1, rollout(11, 1.0, rows), rollout(12, 0.0, (trajectory(121, 0.0),))))
    batch = executor_batch(view, stored(view, 115), spec(), updates=5)
    assert batch.fates == {
        uuid(111): 4,
        uuid(112): "stale",
        uuid(113): "unscored",
        uuid(114): "awaited",
        uuid(115): "lost",
        uuid(121): 4,
    }
    assert batch.statistics["trajectories_unscored"] == 2
    assert batch.histograms["staleness"] == {"0": 2, "2": 1}


def test_a_discarded_group_trains_nothing():
    view = delivery("executor", group(1, rollout(11, 1.0, (trajectory(111, 1.0),)), state="discarded"))
    batch = executor_batch(view, stored(view), spec(), updates=5)
    assert (batch.rows, batch.fates) == ([], {uuid(111): "discarded"})
    assert batch.statistics["rows_masked"] == 0


def test_a_dead_group_keeps_its_rows_for_the_denominator():
    view = delivery("executor", group(1, *(rollout(n, 1.0, (trajectory(n * 10, 1.0),)) for n in (11, 12))))
    batch = executor_batch(view, stored(view), spec(), updates=5)
    assert [(row.dead, row.multiplicity) for row in batch.rows] == [(True, 4.0)] * 2
    assert set(batch.fates.values()) == {"dead-group"}
    assert batch.statistics["groups_dead"] == 1


@pytest.mark.parametrize(("mode", "cutter", "weight"), [("expected", "group", 4 / 3), ("none", "arrival", 1.0)])
def test_other_alignments_train_each_row_once(mode: str, cutter: str, weight: float):
    rows = tuple(trajectory(110 + i, i / 2) for i in range(3))
    view = delivery("executor", group(1, rollout(11, 1.0, rows), state="open" if mode == "none" else "complete"))
    batch = executor_batch(view, stored(view), spec(alignment=mode, cutter=cutter), updates=5)
    assert [row.multiplicity for row in batch.rows] == pytest.approx([weight] * 3)
    assert set(batch.fates.values()) == {1}


def test_the_order_of_arrival_changes_nothing():
    rollouts = [rollout(n, n % 2, (trajectory(n * 10, 0.5), trajectory(n * 10 + 1, 1.0))) for n in (11, 12, 13)]
    one = delivery("executor", group(1, *rollouts))
    other = delivery("executor", group(1, *reversed(rollouts)))
    rows = [{r.trajectory: r for r in executor_batch(v, stored(v), spec(), updates=5).rows} for v in (one, other)]
    assert rows[0] == rows[1]
