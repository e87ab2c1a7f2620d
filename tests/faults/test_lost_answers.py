"""A commit whose answer is lost: done once, and the retry is answered as before."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from asgi_lifespan import LifespanManager

from shared.client import SyncClient
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.faults.proxy import Proxy, Weather, proxied
from tests.integration.sync.builder import Builder
from tests.waiting import until

RECORDED = """
SELECT (SELECT count(*) FROM groups) AS groups, (SELECT count(*) FROM rollouts) AS rollouts,
    (SELECT count(*) FROM trajectories) AS trajectories,
    (SELECT count(*) FROM deliveries WHERE state = 'acked') AS acked,
    (SELECT count(DISTINCT (role, step)) FROM policies) AS versions,
    (SELECT sum(closed) FROM batches) AS closed, (SELECT sum(sealed) FROM batches) AS sealed
"""


async def walk(build: Builder, proxy: Proxy, lose: bytes) -> tuple:
    """One step with both trainers. The answer to each first request that holds `lose` is lost."""
    await build.declare(steps=1)

    async def losing(call):
        proxy.weather = Weather(swallow=lose)
        answer = await call
        proxy.weather = Weather()
        return answer

    await losing(build.fill(1))
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await losing(trainer.resume())
        await losing(trainer.train())
    (counts,) = await build.sql(RECORDED)
    return tuple(counts)


DONE = (2, 4, 4, 2, 4, 2, 2)


@pytest.mark.parametrize(
    "lose", [b"PUT /v1/groups", b"rollouts:batch", b"trajectories:batch", b":resume", b":lease", b":ack", b"policies"]
)
async def test_between_client_and_service(build: Builder, port: int, lose: bytes) -> None:
    async with proxied(port) as proxy, SyncClient(f"http://127.0.0.1:{proxy.port}") as client:
        build.client = client
        assert await walk(build, proxy, lose) == DONE
        assert proxy.swallowed > 0


@pytest.fixture
async def database_proxy(database: str) -> AsyncGenerator[Proxy]:
    """A proxy before Postgres."""
    async with proxied(urlsplit(database).port or 5432) as proxy:
        yield proxy


@pytest.fixture
async def far_database(database: str, database_proxy: Proxy, tmp_path: Path) -> AsyncGenerator[Builder]:
    """The service with its database behind a proxy."""
    url = database.replace(str(urlsplit(database).port), str(database_proxy.port))
    app = create_app(SyncConfig(auth="loopback", database_url=url, reaper_s=3600, poll_s=0.05, disk_folder=tmp_path))
    async with LifespanManager(app):
        transport = httpx.ASGITransport(app=app)
        async with SyncClient("http://sync", transport=transport) as client:
            yield Builder(app, client)


async def test_between_service_and_database(far_database: Builder, database_proxy: Proxy) -> None:
    assert await walk(far_database, database_proxy, b"COMMIT") == DONE
    assert database_proxy.swallowed >= 5


async def test_connections_to_the_database_that_were_reset_are_made_again(
    far_database: Builder, database_proxy: Proxy
) -> None:
    await far_database.declare(steps=1)
    database_proxy.reset()
    await far_database.fill(1)
    database_proxy.reset()
    assert (await far_database.client.status(far_database.run)).rollouts == {"reported": 4}


async def test_a_half_open_connection_is_given_up_by_the_client(build: Builder, port: int) -> None:
    await build.declare(steps=1)
    async with proxied(port) as proxy, SyncClient(f"http://127.0.0.1:{proxy.port}", timeout_s=0.3) as client:
        build.client = client
        group = await build.open()
        proxy.weather = Weather(half_open=True)
        report = asyncio.create_task(build.report(build.rollout(group, calls=0)))
        await until(lambda: proxy.dropped)
        proxy.weather = Weather()
        await report
    assert proxy.dropped == 1
