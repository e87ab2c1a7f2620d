"""Intervals against values from the literature and against counting."""

import pytest

from shared.cli.demo.intervals import accuracy, paired_difference


def test_wilson_matches_the_published_example():
    """Newcombe (1998), table I: 81 of 263 has the score interval 0.2553 to 0.3662."""
    estimate = accuracy([1.0] * 81 + [0.0] * 182)
    assert (round(estimate.low, 4), round(estimate.high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(("right", "n"), [(0, 20), (20, 20)])
def test_the_interval_stays_inside_zero_and_one(right: int, n: int):
    estimate = accuracy([1.0] * right + [0.0] * (n - right))
    assert 0.0 <= estimate.low <= estimate.mean <= estimate.high <= 1.0
    assert estimate.high - estimate.low > 0.05


def test_a_paired_difference_counts_each_task_once():
    before, after = [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]
    estimate = paired_difference(before, after)
    assert estimate.mean == 0.25
    assert estimate.low == pytest.approx(0.25 - 1.959964 * 0.5 / 2, abs=1e-6)


def test_the_same_answers_differ_by_nothing():
    estimate = paired_difference([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (estimate.low, estimate.mean, estimate.high) == (0.0, 0.0, 0.0)


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0], [1.0, 0.0])
