"""Configuration of the sync service."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.config import Config

Positive = Annotated[float, Field(gt=0, le=3600)]


class SyncConfig(Config):
    """Where Postgres and Redis are, and how often what nothing wakes is looked at again."""

    database_url: str
    redis_url: str | None = None
    pool_size: Annotated[int, Field(ge=1, le=200)] = 10
    poll_s: Positive = 0.25
    """How often a waiter looks while no Redis wakes it."""
    poll_with_redis_s: Positive = 2.0
    """How often a waiter looks all the same: a ring can be lost."""
    reaper_s: Positive = 1.0
    """How often deadlines are swept."""
    disk_folder: Path = Path(".")
    """The folder whose disk `/readyz` looks at."""
    disk_free_bytes: Annotated[int, Field(ge=0)] = 256 * 1024 * 1024
