"""What the tests under fire share: the builder of the sync service's tests, and a service that listens on a port."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from fastapi import FastAPI

from shared.client import SyncClient
from shared.http.serve import bind
from tests.integration.sync.builder import Builder


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
