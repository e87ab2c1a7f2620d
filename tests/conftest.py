"""A real Postgres and Valkey for the whole session, an empty migrated database for each test, the real app on it."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.client import SyncClient
from sync_service import migrate
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.embedded import Services, embedded
from sync_service.tables import metadata

LONGEST = "test_pool_ray.py"
"""It takes minutes, most of them waiting: begun last, it would run alone while the other workers have nothing left."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest file first, the others in their order."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session")
def services() -> Generator[Services]:
    """Postgres and Valkey, started once. Not under pytest's own folder, which only its owner may enter."""
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as folder, asyncio.Runner() as runner:
        Path(folder).chmod(0o755)
        running = embedded(Path(folder))
        started = runner.run(running.__aenter__())
        try:
            yield started
        finally:
            runner.run(running.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def postgres_url(services: Services) -> str:
    """A database of the server that is migrated."""
    migrate.upgrade(services.database_url)
    return services.database_url


@pytest.fixture(scope="session")
def redis_url(services: Services) -> str:
    """The Valkey of this session; the tests of different runs do not disturb one another."""
    if services.redis_url is None:
        pytest.skip("there is no Valkey or Redis binary")
    return services.redis_url


@pytest.fixture
def database(postgres_url: str) -> str:
    """The URL of a migrated database with nothing in it: emptied, as making one for each test takes far longer."""
    empty_database(postgres_url)
    return postgres_url


def empty_database(url: str) -> None:
    """Delete every row; for those who need a database for more than one test."""
    empty = "; ".join(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables))
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(f"SET LOCAL lock_timeout = '10s'; {empty}".encode())


@pytest.fixture
def sync_config(database: str, redis_url: str, tmp_path: Path) -> SyncConfig:
    """Tests override this to run without Redis. No reaper disturbs a test: those that need one call its sweep."""
    return SyncConfig(
        auth="loopback", database_url=database, redis_url=redis_url, reaper_s=3600, poll_s=0.05, disk_folder=tmp_path
    )


@pytest.fixture
async def sync_app(sync_config: SyncConfig) -> AsyncGenerator[FastAPI]:
    """The real sync service, its lifespan run."""
    app = create_app(sync_config)
    async with LifespanManager(app):
        yield app


@pytest.fixture
async def sync_client(sync_app: FastAPI) -> AsyncGenerator[SyncClient]:
    """The real client, on the app in this process."""
    async with SyncClient("http://sync", transport=httpx.ASGITransport(app=sync_app), retry_for_s=5) as client:
        yield client
