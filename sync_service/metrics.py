"""What the sync service counts and reads of itself, beside its requests."""

from pathlib import Path
from typing import Any

import structlog
from prometheus_client import Counter, Gauge, Histogram
from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from shared.errors import TandemError
from shared.http.metrics import HttpMetrics
from sync_service.database import Database
from sync_service.run_metrics import RunGauges, look

log = structlog.get_logger()

LAG_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class SyncMetrics(HttpMetrics):
    """Counters are of this process; what is read from the database is of the whole service."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
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
        self.configured = Gauge("tandem_sync_doorbell_configured", "1 if the service was given a Redis.", **of)
        self.doorbell = Gauge("tandem_sync_doorbell_connected", "1 while Redis wakes the waiters, else 0.", **of)
        self.database = Gauge("tandem_sync_database_up", "1 if the database answered this scrape, else 0.", **of)
        self.pool = Gauge("tandem_sync_database_connections", "Database connections in use.", ("pool",), **of)
        self.runs = RunGauges(self.registry)

    def count_events(self, numbered: list[Row]) -> None:
        """Count events that were given their positions: kind, waited_s."""
        for row in numbered:
            self.events.labels(row.kind).inc()
            self.lag.observe(row.waited_s)

    async def read(self, database: Database) -> None:
        """Read what lives; while the database is away, these metrics are absent."""
        try:
            live = await database.read(look)
        except (SQLAlchemyError, TandemError) as error:
            log.warning("metrics without the database's", error=repr(error))
            self.database.set(0)
            self.runs.clear()
        else:
            self.database.set(1)
            self.runs.show(live)
