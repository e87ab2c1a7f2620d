"""What a role's server shows of its policy, beside its requests; read from counters in this process, when asked."""

from collections.abc import Iterator

from fastapi import FastAPI
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.http.metrics import HttpMetrics, install_metrics
from shared.policy.policy import Policy
from shared.serving.submitter import Submitter


class _Parts(Collector):
    """Reads `app.state.parts`; nothing is there before the policy has started."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        parts = getattr(self._app.state, "parts", None)
        if parts is not None:
            yield from _policy(parts.policy)
            yield from _reports(parts.submitter)


def _policy(policy: Policy) -> Iterator[Metric]:
    sampler = policy.sampler
    yield GaugeMetricFamily("tandem_trainer_step", "The last step in the trainer's weights.", policy.step)
    yield GaugeMetricFamily("tandem_trainer_updates", "Optimiser steps behind these weights.", policy.updates)
    yield GaugeMetricFamily("tandem_sampler_waiting", "Turns that are asked for and not sampled yet.", sampler.waiting)
    yield CounterMetricFamily("tandem_sampler_turns", "Turns that were sampled.", value=sampler.turns)
    yield CounterMetricFamily("tandem_sampler_tokens", "Tokens that were sampled.", value=sampler.tokens)


def _reports(submitter: Submitter) -> Iterator[Metric]:
    pending, refused = submitter.pending, submitter.refused
    yield GaugeMetricFamily("tandem_reports_pending", "Reports that wait to be sent.", pending)
    yield CounterMetricFamily("tandem_reports_refused", "Reports that it has refused for good.", value=refused)


def install_server_metrics(app: FastAPI) -> None:
    """Measure the app of a role's server, and answer `/metrics`."""
    metrics = HttpMetrics()
    metrics.registry.register(_Parts(app))
    install_metrics(app, metrics)
