"""What lives, as gauges: read from the database whenever somebody asks for the metrics.

A label names a run only here, and only one that is not over: an operator declared it, so there are few, and its series
end with it. No label names a group, a worker or a key.
"""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge
from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service import store

RUN, STREAM = ("run",), ("run", "role")


@dataclass(frozen=True, slots=True)
class Live:
    """One look into the database."""

    states: list[Row]
    runs: list[Row]
    groups: list[Row]
    deliveries: list[Row]
    streams: list[Row]
    stalls: list[Row]


async def look(connection: AsyncConnection) -> Live:
    """What lives now."""
    runs = await store.live.runs(connection)
    names = [row.run for row in runs]
    return Live(
        states=await store.live.run_states(connection),
        runs=runs,
        groups=await store.live.groups(connection, names),
        deliveries=await store.live.deliveries(connection, names),
        streams=await store.live.streams(connection, names),
        stalls=await store.live.stalls(connection, names),
    )


class RunGauges:
    """The gauges; `show` sets all of them at once, so that no scrape sees half of it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._all: list[Gauge] = []

        def gauge(name: str, text: str, labels: tuple[str, ...]) -> Gauge:
            made = Gauge(f"tandem_sync_{name}", text, labels, registry=registry)
            self._all.append(made)
            return made

        self.states = gauge("runs", "Runs, by state.", ("state",))
        self.run = gauge(
            "run_state", "1 for the state that a run is in; runs that are over have none.", (*RUN, "state")
        )
        self.steps = gauge("run_steps", "Steps that the run was declared with.", RUN)
        self.bound = gauge("run_staleness_bound", "Optimiser steps that a row of the run may be stale.", RUN)
        self.groups = gauge("groups", "Groups that are not sealed, by what they wait for.", (*RUN, "state"))
        self.oldest = gauge("oldest_group_seconds", "Since the oldest group that is not sealed was opened.", RUN)
        self.overdue = gauge("group_overdue_seconds", "By how much a group is past its deadline; 0 if none is.", RUN)
        self.deliveries = gauge("deliveries", "Deliveries that are not acked, by state.", (*STREAM, "state"))
        self.ready = gauge("oldest_delivery_seconds", "Since the oldest ready delivery has been ready.", STREAM)
        self.epoch = gauge("epoch", "The epoch of the role's stream.", STREAM)
        self.acked = gauge("acked_step", "The last step that the role's trainer acked.", STREAM)
        self.live = gauge("live_step", "The last acked step whose weights the role's samplers confirmed.", STREAM)
        self.held = gauge("lease_held", "1 while a trainer's lease on the stream lives, else 0.", STREAM)
        self.updates = gauge("policy_updates", "Optimiser steps behind the weights that were confirmed last.", STREAM)
        self.age = gauge("policy_age_seconds", "Since the samplers confirmed their weights.", STREAM)
        self.stalls = gauge("stalls", "Stalls and lost workers that go on, by code.", (*RUN, "code"))

    def clear(self) -> None:
        """Show nothing: while the database is away nobody knows."""
        for gauge in self._all:
            gauge.clear()

    def show(self, live: Live) -> None:
        """Show this look, and nothing of the one before."""
        self.clear()
        for row in live.states:
            self.states.labels(row.state).set(row.count)
        for row in live.runs:
            self.run.labels(row.run, row.state).set(1)
            self.steps.labels(row.run).set(row.steps)
            self.bound.labels(row.run).set(row.staleness)
        self._show_groups(live)
        for row in live.deliveries:
            self.deliveries.labels(row.run, row.role, row.state).set(row.count)
            if row.state == "ready":
                self.ready.labels(row.run, row.role).set(row.ready_s)
        for row in live.streams:
            self._show_stream(row)
        for row in live.stalls:
            self.stalls.labels(row.run, row.code).set(row.count)

    def _show_groups(self, live: Live) -> None:
        late = {row.run: 0.0 for row in live.runs}
        oldest = dict(late)
        for row in live.groups:
            self.groups.labels(row.run, row.state).set(row.count)
            oldest[row.run] = max(oldest[row.run], row.age_s)
            late[row.run] = max(late[row.run], row.overdue_s)
        paused = {row.run for row in live.runs if row.state == "paused"}  # whose deadlines stand still
        for run in late:
            self.oldest.labels(run).set(oldest[run])
            self.overdue.labels(run).set(0.0 if run in paused else late[run])

    def _show_stream(self, row: Row) -> None:
        of = (row.run, row.role)
        self.epoch.labels(*of).set(row.epoch)
        self.acked.labels(*of).set(row.acked_step)
        self.live.labels(*of).set(row.live_step)
        self.held.labels(*of).set(row.held)
        if row.updates is not None:
            self.updates.labels(*of).set(row.updates)
            self.age.labels(*of).set(row.age_s)
