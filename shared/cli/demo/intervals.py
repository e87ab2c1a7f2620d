"""95% intervals of accuracies and of paired differences."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev

Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def accuracy(correct: Sequence[float]) -> Estimate:
    """The share of correct tasks with Wilson's score interval, sound near 0 and 1 too (Wilson, 1927)."""
    n, p = len(correct), fmean(correct)
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    return Estimate(p, max(0.0, centre - half), min(1.0, centre + half))


def paired_difference(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """The mean of after - before over the same tasks, in the same order, with a normal interval."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    mean = fmean(differences)
    half = Z95 * stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else float("inf")
    return Estimate(mean, mean - half, mean + half)
