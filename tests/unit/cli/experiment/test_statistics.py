"""t quantiles, intervals and paired differences against published values."""

import pytest

from shared.cli.experiment.statistics import paired, t_interval, t_quantile

SLEEP = {
    1: dict(enumerate([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])),
    2: dict(enumerate([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])),
}
"""Student (1908): extra hours of sleep of ten patients under two drugs."""


@pytest.mark.parametrize(
    ("df", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (7, 2.365), (9, 2.262), (30, 2.042), (120, 1.980)]
)
def test_the_quantiles_are_those_of_the_tables(df: int, quantile: float):
    assert t_quantile(df) == pytest.approx(quantile, abs=5e-4)


def test_students_own_example():
    """Its paired difference is 1.58 hours, with the 95% interval 0.7001 to 2.4599 (R: t.test(paired = TRUE))."""
    difference = paired(SLEEP[2], SLEEP[1])
    assert difference is not None
    assert difference.mean == pytest.approx(1.58)
    assert (difference.low, difference.high) == (pytest.approx(0.7001142), pytest.approx(2.4598858))
    assert difference.excludes_zero


def test_five_seeds_by_hand():
    """Mean 0.3, deviation 0.158114, standard error 0.0707107, times 2.776445."""
    interval = t_interval([0.1, 0.2, 0.3, 0.4, 0.5])
    assert interval is not None
    assert interval.low == pytest.approx(0.3 - 2.776445 * 0.0707107, abs=1e-6)
    assert interval.high == pytest.approx(0.3 + 2.776445 * 0.0707107, abs=1e-6)


def test_pairs_are_of_the_seeds_that_both_have():
    difference = paired({11: 0.9, 12: 0.8, 13: 0.7}, {12: 0.3, 13: 0.3, 14: 0.9})
    assert difference is not None
    assert (difference.mean, difference.n) == (pytest.approx(0.45), 2)


def test_nothing_follows_from_one_seed_or_none():
    one = t_interval([0.5])
    assert one is not None
    assert (one.mean, one.low, one.high) == (0.5, None, None)
    assert not one.excludes_zero
    assert t_interval([]) is None
    assert paired({1: 0.5}, {2: 0.5}) is None


@pytest.mark.parametrize(("values", "beyond"), [([1.0, 1.1], True), ([-1.0, -1.1], True), ([-1.0, 1.0], False)])
def test_beyond_the_interval_is_on_one_side_of_zero(values: list[float], beyond: bool):
    interval = t_interval(values)
    assert interval is not None
    assert interval.excludes_zero is beyond
