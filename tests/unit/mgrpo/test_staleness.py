import pytest

from shared.errors import InvalidInput
from shared.mgrpo.staleness import row_staleness, split_stale
from shared.schemas.base import PolicyVersion


def version(updates, step=0, epoch=0):
    return PolicyVersion(epoch=epoch, step=step, updates=updates)


def test_only_optimiser_steps_age_a_row():
    assert row_staleness(7, version(5, step=6)) == 2
    assert row_staleness(7, version(5, step=1)) == 2


def test_a_trainer_that_resumed_behind_the_sampler_finds_nothing_stale():
    assert row_staleness(3, version(9)) == 0


def test_a_superseded_version_counts_the_same_way():
    assert row_staleness(7, version(5, epoch=1)) == row_staleness(7, version(5, epoch=4))


def test_rows_over_the_bound_leave_and_rows_at_it_stay():
    split = split_stale({"a": version(4), "b": version(3), "c": version(5)}, updates=5, bound=1)
    assert split.by_row == {"a": 1, "b": 2, "c": 0}
    assert split.stale == {"b"}
    assert split.kept == ["a", "c"]


def test_a_negative_bound_is_refused():
    with pytest.raises(InvalidInput, match="bound"):
        split_stale({}, updates=0, bound=-1)
