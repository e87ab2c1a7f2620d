"""Redis changes speed and never a result: lost, flushed, restarted, or never there, a run leaves the same tables."""

import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager
from redis.asyncio import Redis

from shared.client import SyncClient
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.tables import metadata
from tests.faults.servers import ValkeyServer
from tests.faults.walk import tables, walk
from tests.integration.sync.builder import Builder


@pytest.fixture
async def valkey() -> AsyncGenerator[ValkeyServer]:
    """A Valkey of the test's own, to be killed."""
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as folder:
        os.chmod(folder, 0o755)
        server = ValkeyServer(Path(folder))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


ROWS = {
    "runs": 1,
    "groups": 6,
    "rollouts": 24,
    "trajectories": 35,
    "deliveries": 6,
    "streams": 2,
    "policies": 8,
}


async def nothing() -> None:
    """Leave Redis alone."""


async def run(database: str, redis_url: str | None, folder: Path, disturb) -> dict:
    """The walk on a service of its own; the tables that it leaves."""
    config = SyncConfig(
        auth="loopback", database_url=database, redis_url=redis_url, reaper_s=3600, poll_s=0.05, disk_folder=folder
    )
    app = create_app(config)
    async with (
        LifespanManager(app),
        SyncClient("http://sync", transport=httpx.ASGITransport(app=app), retry_for_s=5) as client,
    ):
        await walk(client, disturb)
        return await tables(Builder(app, client))


def empty(database: str) -> None:
    """As if nothing had run."""
    names = ", ".join(table.name for table in metadata.sorted_tables)
    with psycopg.connect(database.replace("+psycopg", "")) as connection:
        connection.execute(f"TRUNCATE {names}".encode())


@pytest.mark.parametrize("fault", ["never there", "lost", "flushed", "restarted"])
async def test_the_tables_are_those_of_an_undisturbed_run(
    fault: str, database: str, tmp_path: Path, valkey: ValkeyServer
) -> None:
    expected = await run(database, valkey.url, tmp_path, nothing)
    empty(database)

    async def lose() -> None:
        await valkey.kill()

    async def flush() -> None:
        async with Redis.from_url(valkey.url) as redis:
            await redis.flushall()

    async def restart() -> None:
        await valkey.kill()
        await valkey.start()

    disturb = {"never there": nothing, "lost": lose, "flushed": flush, "restarted": restart}[fault]
    url = None if fault == "never there" else valkey.url
    assert await run(database, url, tmp_path, disturb) == expected
    assert {name: len(rows) for name, rows in expected.items()} == ROWS
