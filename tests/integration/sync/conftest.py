"""The builder, and the parametrised choice of a doorbell."""

from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from fastapi import FastAPI

from shared.client import SyncClient
from sync_service.config import SyncConfig
from tests.integration.sync.builder import Builder


@pytest.fixture(params=["redis", "polling"])
def either_doorbell(request: pytest.FixtureRequest, database: str, redis_url: str, tmp_path: Path) -> SyncConfig:
    """A service with Redis, and one without: the same results."""
    url = redis_url if request.param == "redis" else None
    return SyncConfig(
        auth="loopback", database_url=database, redis_url=url, reaper_s=3600, poll_s=0.05, disk_folder=tmp_path
    )


@pytest.fixture(autouse=True)
def _logs() -> Generator[None]:
    """A command that runs in this process writes its logs to where pytest captured this test's: no other test may."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def build(sync_app: FastAPI, sync_client: SyncClient) -> Builder:
    """A run to be declared: 3 steps of 2 groups of 2 rollouts, unless the test says otherwise."""
    return Builder(sync_app, sync_client)
