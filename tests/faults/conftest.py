"""What the tests under fire share: the builder of the sync service's tests, and a service that listens on a port."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from hypothesis import settings

from shared.client import SyncClient
from shared.http.serve import bind
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.faults.world import World
from tests.integration.sync.builder import Builder

settings.register_profile("faults")  # pytest tests/faults --hypothesis-profile=faults: many more examples


@pytest.fixture
def build(sync_app: FastAPI, sync_client: SyncClient) -> Builder:
    """A run to be declared: 3 steps of 2 groups of 2 rollouts, unless the test says otherwise."""
    return Builder(sync_app, sync_client)


class _Server(uvicorn.Server):
    """Leaves the signals to pytest."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


@pytest.fixture
async def port(sync_app: FastAPI) -> AsyncGenerator[int]:
    """The app on a port, for what the network does to it; its lifespan runs already."""
    listener = bind("127.0.0.1", 0)
    server = _Server(uvicorn.Config(sync_app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    sync_app.state.on_stop()
    await serving


@pytest.fixture
def worlds(database: str, tmp_path: Path) -> Generator:
    """Makes worlds on one app."""
    config = SyncConfig(auth="loopback", database_url=database, reaper_s=3600, disk_folder=tmp_path)
    app = create_app(config)
    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)
        runner.run(lifespan.__aenter__())
        client = SyncClient("http://sync", transport=httpx.ASGITransport(app=app), retry_for_s=5)
        try:
            yield lambda: World(runner, Builder(app, client))
        finally:
            runner.run(client.close())
            runner.run(lifespan.__aexit__(None, None, None))
