"""What a role's server shows beside its requests: policy, steps, work in flight, reports, disk.

It works for one run in one role, so its labels `run` and `role` have one value each, for as long as it lives.
"""

from collections.abc import Callable, Iterator, Sequence

from fastapi import FastAPI
from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.http.metrics import HttpMetrics, install_metrics
from shared.policy.policy import Policy
from shared.schemas import Role
from shared.serving.config import ServerConfig
from shared.serving.flights import Flights
from shared.serving.member import Member
from shared.serving.progress import PartSeconds, Progress
from shared.serving.sinks import MetricsSink
from shared.serving.step_metrics import StepMetrics
from shared.serving.submitter import Submitter

LABELS = ("run", "role")


class ServerMetrics(HttpMetrics):
    """The metrics of one role's server. What its parts count is shown once they have started."""

    def __init__(self, config: ServerConfig, role: Role) -> None:
        super().__init__(config.folder)
        self._config, self.run, self.role = config, config.run, role

    def flights(self, noun: str) -> Flights:
        """Work of that kind, counted."""
        flights = Flights(noun, self.run, self.role)
        self.registry.register(flights)
        return flights

    def progress(self, sinks: Sequence[MetricsSink]) -> Progress:
        """The stream's observer; its curves go to `sinks`, too."""
        progress = Progress(StepMetrics(self.registry, self.run, self.role), sinks, self.role)
        self.registry.register(PartSeconds(progress, self.run, self.role))
        return progress

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge that is read when asked."""
        gauge = Gauge(name, text, LABELS, registry=self.registry)
        gauge.labels(self.run, self.role).set_function(read)

    def show(self, policy: Policy, submitter: Submitter, member: Member) -> None:
        """Show these parts from now on."""
        self.registry.register(_Parts(policy, submitter, member, self._config.policy.store.max_bytes))


class _Parts(Collector):
    """Read when asked, from counters in this process."""

    def __init__(self, policy: Policy, submitter: Submitter, member: Member, store_bytes: int) -> None:
        self._policy, self._submitter, self._member, self._store_bytes = policy, submitter, member, store_bytes

    def collect(self) -> Iterator[Metric]:
        policy, sampler, submitter = self._policy, self._policy.sampler, self._submitter
        yield self._gauge("trainer_step", "The last step in the trainer's weights.", policy.step)
        yield self._gauge("trainer_updates", "Optimiser steps behind the trainer's weights.", policy.updates)
        if version := self._member.version():
            yield self._gauge("sampler_epoch", "Epoch of the weights that the sampler confirmed.", version.epoch)
            yield self._gauge("sampler_step", "Step of the weights that the sampler confirmed.", version.step)
            yield self._gauge("sampler_updates", "Optimiser steps behind the sampler's weights.", version.updates)
        yield self._gauge("sampler_waiting", "Turns that are asked for and not sampled yet.", sampler.waiting)
        yield self._counter("sampler_turns", "Turns that were sampled.", sampler.turns)
        yield self._counter("sampler_tokens", "Tokens that were sampled.", sampler.tokens)
        yield self._gauge("reports_pending", "Reports in the spool, which wait to be sent.", submitter.pending)
        yield self._counter("reports_refused", "Reports that were refused for good.", submitter.refused)
        yield from self._store()

    def _store(self) -> Iterator[Metric]:
        size = self._policy.store.path.stat().st_size
        yield self._gauge("store_bytes", "Size of the file of trajectories and of the spool.", size)
        yield self._gauge("store_limit_bytes", "What policy.store.max_bytes bounds it to.", self._store_bytes)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"tandem_{name}", text, labels=LABELS)
        family.add_metric((self._member.run, self._member.role), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"tandem_{name}", text, labels=LABELS)
        family.add_metric((self._member.run, self._member.role), value)
        return family


def install_server_metrics(app: FastAPI, config: ServerConfig, role: Role) -> None:
    """Measure the app of a role's server, and answer `/metrics`; `app.state.metrics` takes what its parts count."""
    app.state.metrics = ServerMetrics(config, role)
    install_metrics(app, app.state.metrics)
