"""Configuration of the sync service."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.config import Config
from shared.http.admission import AdmissionConfig
from shared.http.loopback import Auth

Positive = Annotated[float, Field(gt=0, le=3600)]


class SyncConfig(Config):
    """Where Postgres and Redis are, and how often what nothing wakes is looked at again."""

    auth: Auth = "keys"
    """`keys`: those in the database; `loopback`: none, and nobody but this machine can call."""
    database_url: str
    redis_url: str | None = None
    pool_size: Annotated[int, Field(ge=1, le=200)] = 10
    reserved_connections: Annotated[int, Field(ge=1, le=50)] = 3
    """Beside the pool, for heartbeats, renewals, acks and health: bulk writes cannot take them."""
    admission: AdmissionConfig = AdmissionConfig(in_work=32, waiting=512)
    held_requests: Annotated[int, Field(ge=1)] = 1024
    """Long polls and event streams at once, which are counted apart."""
    poll_s: Positive = 0.25
    """How often a waiter looks while no Redis wakes it."""
    poll_with_redis_s: Positive = 2.0
    """How often a waiter looks all the same: a ring can be lost."""
    event_streams_per_key: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Event streams and held polls of events that one key may have open at once."""
    reaper_s: Positive = 1.0
    """How often deadlines are swept."""
    stall_s: Positive = 300.0
    """A wait in which nothing has moved for so long is a stall."""
    worker_lost_s: Positive = 30.0
    """A worker that was not heard of for so long is lost; it sends a heartbeat every 3 s."""
    keep_runs_days: Annotated[float, Field(gt=0, le=36_500)] | None = None
    """A finished or failed run is purged when nothing has happened in it for so long; by default none is."""
    text_key_file: Path | None = None
    """A viewer's key for the role servers, for the texts that pages show; without one they are asked without a key."""
    disk_folder: Path = Path(".")
    """The folder whose disk `/readyz` looks at."""
    disk_free_bytes: Annotated[int, Field(ge=0)] = 256 * 1024 * 1024
