"""What becomes of a role's stream: time by part of a step, and the statistics of each ack, to every sink."""

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.observer import Observer
from shared.schemas import Role
from shared.schemas.stream import Ack
from shared.serving.sinks import MetricsSink
from shared.serving.step_metrics import StepMetrics


class Progress(Observer):
    """Of one stream; `clock` in seconds."""

    def __init__(
        self, steps: StepMetrics, sinks: Sequence[MetricsSink], role: Role, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._steps, self._sinks, self._role, self._clock = steps, sinks, role, clock
        self._seconds: dict[str, float] = {}
        self._part: str | None = None
        self._since = 0.0

    def enter(self, part: str) -> None:
        """The part before ends here: so the parts add up to the loop's whole time."""
        self._seconds, self._part, self._since = self.seconds(), part, self._clock()

    def seconds(self) -> dict[str, float]:
        """Time so far, by part, that of the part which goes on included."""
        seconds = dict(self._seconds)
        if self._part is not None:
            seconds[self._part] = seconds.get(self._part, 0.0) + self._clock() - self._since
        return seconds

    def acked(self, ack: Ack) -> None:
        """Count it, and hand its statistics to the sinks."""
        self._steps.count(ack)
        for sink in (self._steps, *self._sinks):
            sink.record(self._role, ack.step, ack.statistics)

    def lost(self) -> None:
        """Count it."""
        self._steps.count_lost()


class PartSeconds(Collector):
    """A stream's time, as Prometheus reads it."""

    def __init__(self, progress: Progress, run: str, role: Role) -> None:
        self._progress, self._of = progress, (run, role)

    def collect(self) -> Iterator[Metric]:
        """One counter."""
        told = "The training loop's time, by part of a step: resume, wait, train, ack, load."
        family = CounterMetricFamily("tandem_step_seconds", told, labels=("run", "role", "part"))
        for part, seconds in self._progress.seconds().items():
            family.add_metric((*self._of, part), seconds)
        yield family
