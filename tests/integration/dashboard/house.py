"""The sync service with keys, in a thread, on a free port: for tests that have a browser in their own thread."""

import asyncio
import threading
from collections.abc import Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

import httpx
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.client import SyncClient
from shared.http.keys import new_key
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.dashboard.scene import Scene
from tests.integration.sync.builder import Builder
from tests.listening import listening

T = TypeVar("T")
READY_S = 60.0


class House:
    """The service: its `url`, the keys of an operator and a viewer, and runs to be made."""

    def __init__(self, config: SyncConfig) -> None:
        self._config = config
        self._ready = threading.Event()
        self._fault: BaseException | None = None
        self.url = ""
        self._line = AsyncExitStack()
        self.operator, self._operator_key = new_key("operator")
        self.viewer, self._viewer_key = new_key("viewer")
        self.app: FastAPI
        self.servers: FastAPI
        """Another process of the service, without keys: what the role servers are taken to call."""
        self.client: SyncClient
        self.loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event

    def run(self) -> None:
        """Serve until `stop`: the body of the thread."""
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            self._fault = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self.app = create_app(self._config.model_copy(update={"auth": "keys"}))
        self.servers = create_app(self._config.model_copy(update={"auth": "loopback"}))
        transport = httpx.ASGITransport(app=self.servers)
        async with LifespanManager(self.app), LifespanManager(self.servers):
            keys = [self._operator_key, self._viewer_key]
            service = self.app.state.service
            await service.database.transaction(lambda connection: store.keys.insert(connection, keys))
            await self.app.state.browser_ring.refresh()
            async with SyncClient("http://sync", transport=transport) as self.client:
                await self.pick_up()
                self._ready.set()
                await self._over.wait()
                service.doorbell.stop()
                await self.hang_up()

    async def pick_up(self) -> None:
        """Listen; on the same port as before."""
        port = int(self.url.rpartition(":")[2]) if self.url else 0
        self.url = await self._line.enter_async_context(listening(self.app, port))

    async def hang_up(self) -> None:
        """Close the port and every connection, as a network does that goes away."""
        await self._line.aclose()

    def wait(self) -> None:
        """Until it serves."""
        assert self._ready.wait(READY_S)
        if self._fault:
            raise self._fault

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the service's own thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(READY_S)

    def scene(self, run: str, seed: int = 5) -> Scene:
        """A run to be made."""
        return Scene(Builder(self.servers, self.client, run), seed)

    def stop(self) -> None:
        """Stop as after a signal."""
        self.loop.call_soon_threadsafe(self._over.set)


@contextmanager
def open_house(config: SyncConfig) -> Generator[House]:
    """The service in a thread of its own."""
    house = House(config)
    thread = threading.Thread(target=house.run, name="house")
    thread.start()
    try:
        house.wait()
        yield house
    finally:
        house.stop()
        thread.join(READY_S)
