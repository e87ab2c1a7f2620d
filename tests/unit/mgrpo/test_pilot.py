import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidInput
from shared.mgrpo.pilot import smallest_d_max


@given(st.lists(st.integers(0, 20), min_size=512, max_size=700), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_it_is_the_smallest_that_covers(calls, coverage):
    d_max = smallest_d_max(calls, coverage)
    covered = [sum(d <= bound for d in calls) for bound in range(d_max + 1)]
    assert covered[d_max] >= coverage * len(calls) - 1e-6
    assert d_max == 1 or covered[d_max - 1] < coverage * len(calls) - 1e-6


def test_exactly_99_percent_is_enough_whatever_the_rounding_of_the_product():
    assert smallest_d_max([2] * 693 + [9] * 7) == 2
    assert smallest_d_max([2] * 692 + [9] * 8) == 9
    assert 0.07 * 600 > 42
    assert smallest_d_max([2] * 42 + [9] * 558, coverage=0.07) == 2


def test_rollouts_without_a_call_count_and_d_max_is_at_least_1():
    assert smallest_d_max([0] * 600) == 1
    assert smallest_d_max([0] * 596 + [5] * 4) == 1


def test_the_limit_on_calls_caps_it():
    assert smallest_d_max([12] * 512, max_calls=8) == 8


def test_a_small_pilot_and_a_bad_coverage_are_refused():
    with pytest.raises(InvalidInput, match="at least 512"):
        smallest_d_max([1] * 511)
    with pytest.raises(InvalidInput, match="coverage"):
        smallest_d_max([1] * 512, coverage=99)
