"""The service with keys, and a browser's side of it through ASGI: cookies are kept, redirects are looked at."""

from collections.abc import AsyncGenerator, Generator

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from playwright.sync_api import Browser

from shared.client import SyncClient
from shared.http.keys import new_key
from shared.schemas.base import KeyRole
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.dashboard.browsing import chromium
from tests.integration.sync.builder import Builder


@pytest.fixture
def build(sync_app: FastAPI, sync_client: SyncClient) -> Builder:
    """A run to be declared, by servers that need no key."""
    return Builder(sync_app, sync_client)


@pytest.fixture
async def guarded(sync_config: SyncConfig) -> AsyncGenerator[FastAPI]:
    """The service with keys, on the database that the builder writes to."""
    app = create_app(sync_config.model_copy(update={"auth": "keys"}))
    async with LifespanManager(app):
        yield app


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One for all tests of a file: after it, Playwright's loop is gone, and asyncio's may run again."""
    with chromium() as browser:
        yield browser


class Visitor:
    """A browser: it sends its cookies, and `Origin` along with its forms."""

    def __init__(self, app: FastAPI, base: str = "http://sync") -> None:
        self.app, self.base = app, base
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base)

    async def get(self, path: str) -> httpx.Response:
        """A page."""
        return await self.http.get(path)

    async def post(self, path: str, origin: str | None = "", **fields: str) -> httpx.Response:
        """A form of a page of `origin`; None: the browser does not say."""
        headers = {} if origin is None else {"origin": origin or self.base}
        return await self.http.post(path, data=fields, headers=headers)

    async def key(self, role: KeyRole, run: str | None = None) -> str:
        """A new key that is live at once."""
        text, key = new_key(role, run)
        database = self.app.state.service.database
        await database.transaction(lambda connection: store.keys.insert(connection, [key]))
        await self.app.state.browser_ring.refresh()
        return text

    async def log_in(self, role: KeyRole = "viewer", run: str | None = None) -> str:
        """Log in under a new key; its text."""
        text = await self.key(role, run)
        assert (await self.post("/login", key=text)).status_code == 303
        return text


@pytest.fixture
async def visitor(guarded: FastAPI) -> AsyncGenerator[Visitor]:
    """A browser that has not logged in yet."""
    visitor = Visitor(guarded)
    async with visitor.http:
        yield visitor
