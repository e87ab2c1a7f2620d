"""What the sync service counts and reads of itself, beside its requests."""

from typing import Any

import structlog
from prometheus_client import Counter, Gauge, Histogram
from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import TandemError
from shared.http.metrics import HttpMetrics
from sync_service import store
from sync_service.database import Database

log = structlog.get_logger()

LAG_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class SyncMetrics(HttpMetrics):
    """Counters are of this process; what is read from the database is of the whole service."""

    def __init__(self) -> None:
        super().__init__()
        of: dict[str, Any] = {"registry": self.registry}
        self.waits = Gauge("tandem_sync_waits", "Long polls that are held.", **of)
        self.streams = Gauge("tandem_sync_event_streams", "Event streams that are open.", **of)
        self.bytes_received = Counter("tandem_sync_received_bytes", "Bytes of bodies that groups came in.", **of)
        self.rounds = Counter("tandem_sync_reaper_rounds", "Rounds of the reaper.", ("outcome",), **of)
        self.purged = Counter("tandem_sync_purged_rows", "Rows of purged runs that were deleted.", **of)
        self.events = Counter("tandem_sync_events", "Events that this process numbered.", ("kind",), **of)
        self.lag = Histogram(
            "tandem_sync_event_lag_seconds", "From what happened to its event's number.", buckets=LAG_S, **of
        )
        self.doorbell = Gauge("tandem_sync_doorbell_connected", "1 while Redis wakes the waiters, else 0.", **of)
        self.pool = Gauge("tandem_sync_database_connections", "Database connections in use.", ("pool",), **of)
        self.runs = Gauge("tandem_sync_runs", "Runs, by state.", ("state",), **of)
        self.groups = Gauge("tandem_sync_groups", "Groups that are not final, by what they wait for.", ("state",), **of)
        self.deliveries = Gauge("tandem_sync_deliveries", "Deliveries not acked, by state.", ("role", "state"), **of)
        self.stalls = Gauge("tandem_sync_stalls", "Stalls that go on, by code.", ("code",), **of)

    def count_events(self, numbered: list[Row]) -> None:
        """Count events that were given their positions: kind, waited_s."""
        for row in numbered:
            self.events.labels(row.kind).inc()
            self.lag.observe(row.waited_s)

    async def read(self, database: Database) -> None:
        """Read the states of live things; while the database is away, these metrics are absent."""
        gauges = {"runs": self.runs, "groups": self.groups, "deliveries": self.deliveries, "stalls": self.stalls}
        for gauge in gauges.values():
            gauge.clear()
        try:
            counted = await database.read(_counts)
        except (SQLAlchemyError, TandemError) as error:
            log.warning("metrics without the database's", error=repr(error))
            return
        for name, rows in counted.items():
            for *labels, count in rows:
                gauges[name].labels(*labels).set(count)


async def _counts(connection: AsyncConnection) -> dict[str, list[Row]]:
    return {noun: await store.status.live(connection, noun) for noun in store.status.LIVE}
