"""Means over seeds and paired differences, with 95% t intervals. Pure.

A seed is the unit: its jobs share the warmed-up models and the tasks, so a difference is taken within each seed, and
the interval is over the seeds. Tasks within a seed are no independent trials of training.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from scipy.special import stdtrit

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` seeds with its 95% interval; None and None with fewer than two, from which nothing follows."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the mean is beyond its interval: the whole of it lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def t_interval(values: Iterable[float]) -> Interval | None:
    """mean +/- t(0.975, n - 1) * s / sqrt(n), s with n - 1 (Student, 1908); None without a value."""
    sample = list(values)
    if not sample:
        return None
    mean, n = fmean(sample), len(sample)
    if n < 2:
        return Interval(mean, None, None, n)
    half = t_quantile(n - 1) * stdev(sample) / sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def paired(of: Mapping[int, float], less: Mapping[int, float]) -> Interval | None:
    """`of` less `less` within each seed that both have; None where they share none."""
    return t_interval(of[seed] - less[seed] for seed in sorted(of.keys() & less.keys()))


def t_quantile(df: int) -> float:
    """What a t variable of `df` degrees of freedom exceeds in size in 5% of cases."""
    return float(stdtrit(df, (1 + LEVEL) / 2))
