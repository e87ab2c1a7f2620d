"""`/metrics` in Prometheus' text form: what every server counts of its requests, and a place for its own metrics.

A registry belongs to one app, so that several apps can live in one process. Labels are routes, methods, states, codes,
and runs that an operator declared: never an id, a worker's name or a path, of which there are any number.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response
from fastapi.routing import iter_route_contexts
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.http.admission import Lane
from shared.http.guard import SCRAPER
from shared.http.resources import Resources

METHODS = frozenset({"GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH"})
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Bounds of the latency histogram; the calls that are held on purpose reach the last ones."""


class HttpMetrics:
    """What is counted of requests; `registry` takes a server's own metrics, too."""

    def __init__(self, folder: Path = Path()) -> None:
        """`folder` is on the disk that is watched."""
        disable_created_metrics()  # a second series for each, that says when this process first counted
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(Resources(folder))
        labels = ("method", "route")
        self.requests = Counter(
            "tandem_http_requests", "Requests that were answered.", (*labels, "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "tandem_http_request_seconds",
            "From a request's first byte here to the end of its answer.",
            labels,
            buckets=SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge("tandem_http_in_flight", "Requests that are not answered yet.", registry=self.registry)


class _Lanes(Collector):
    """How admission stands: requests that wait for their turn, and those that were turned away."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self._lanes = tuple(lanes)

    def collect(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("tandem_http_waiting", "Requests that wait for a place.", labels=("lane",))
        rejected = CounterMetricFamily("tandem_http_rejected", "Requests answered 429 at the door.", labels=("lane",))
        for lane in self._lanes:
            waiting.add_metric((lane.name,), lane.waiting)
            rejected.add_metric((lane.name,), lane.refused)
        yield waiting
        yield rejected


class Measured:
    """The middleware that counts."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._templates: dict[int, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the request, by its route once the router has found one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, seen)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = self._template(scope)
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(method, route).observe(time.perf_counter() - began)

    def _template(self, scope: Scope) -> str:
        """The whole path of the route that was found, as it is declared: what a router adds in front included."""
        if not self._templates:
            contexts = iter_route_contexts(scope["app"].routes)
            self._templates = {id(context.original_route): context.path or "" for context in contexts}
        return self._templates.get(id(scope.get("route")), "unmatched")


def install_metrics(app: FastAPI, metrics: HttpMetrics, refresh: Callable[[], Awaitable[None]] | None = None) -> None:
    """Measure `app`, and answer `/metrics`; `refresh` brings up to date what is read and not counted."""
    metrics.registry.register(_Lanes(getattr(app.state, "lanes", ())))
    app.add_middleware(Measured, metrics=metrics)

    @app.get("/metrics", dependencies=[SCRAPER])
    async def exposition() -> Response:
        if refresh is not None:
            await refresh()
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
