"""Pieces of work that take a while: how many are in flight, how they ended, how long they took."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


@dataclass(slots=True)
class Flight:
    """One of them; whoever does the work says how it ended. What raises has `failed`, or what was said before."""

    outcome: str = "failed"


class Flights(Collector):
    """All of one kind; `noun` is part of the metrics' names. Outcomes are words of the code, so there are few."""

    def __init__(self, noun: str, run: str = "", role: str = "") -> None:
        labels, of = ("run", "role"), (run, role)
        self._names, self._of, self._noun = labels, of, noun
        self._open = Gauge(
            f"tandem_{noun}s_in_flight", f"{noun}s that are in progress.".capitalize(), labels, registry=None
        )
        self._ended = Counter(
            f"tandem_{noun}s", f"{noun}s that ended, by outcome.".capitalize(), (*labels, "outcome"), registry=None
        )
        self._seconds = Histogram(
            f"tandem_{noun}_seconds",
            f"From the start of one {noun} to its end.",
            labels,
            buckets=SECONDS,
            registry=None,
        )
        self._busy_s, self._count, self._since = 0.0, 0, 0.0

    @contextmanager
    def one(self) -> Generator[Flight]:
        """Count what happens within."""
        flight, began = Flight(), time.monotonic()
        if not self._count:
            self._since = began
        self._count += 1
        try:
            yield flight
        finally:
            ended = time.monotonic()
            self._count -= 1
            if not self._count:
                self._busy_s += ended - self._since
            self._ended.labels(*self._of, flight.outcome).inc()
            self._seconds.labels(*self._of).observe(ended - began)

    def collect(self) -> Iterator[Metric]:
        """As Prometheus reads it."""
        self._open.labels(*self._of).set(self._count)
        for metric in (self._open, self._ended, self._seconds):
            yield from metric.collect()
        told = "Seconds in which at least one of them was in flight: the sampling part of a step."
        busy = CounterMetricFamily(f"tandem_{self._noun}_busy_seconds", told, labels=self._names)
        busy.add_metric(self._of, self._busy_s + (time.monotonic() - self._since if self._count else 0.0))
        yield busy
