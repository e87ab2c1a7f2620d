"""A real sync service with keys on a port of this machine, a run in it, and the command with a key of each role."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.client import SyncClient
from shared.http.keys import new_key
from shared.schemas.base import KEY_ROLES
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.cli.command import URL, Tandem
from tests.integration.sync.builder import Builder
from tests.listening import listening


@pytest.fixture
def build(sync_app: FastAPI, sync_client: SyncClient) -> Builder:
    """A run to be declared."""
    return Builder(sync_app, sync_client)


@pytest.fixture
async def key_files(build: Builder, tmp_path: Path) -> dict[str, Path]:
    """A file with a key of each role, which the database knows."""
    made = {role: new_key(role) for role in KEY_ROLES}

    async def keep(connection) -> None:
        await store.keys.insert(connection, [key for _, key in made.values()])

    await build.app.state.service.database.transaction(keep)
    for role, (text, _) in made.items():
        (tmp_path / f"{role}.key").write_text(text + "\n")
        (tmp_path / f"{role}.key").chmod(0o600)
    return {role: tmp_path / f"{role}.key" for role in KEY_ROLES}


@pytest.fixture
async def site(sync_config: SyncConfig, key_files: dict[str, Path]) -> AsyncGenerator[str]:
    """The URL of a service with keys, on the database of `build`."""
    app = create_app(sync_config.model_copy(update={"auth": "keys"}))
    async with LifespanManager(app), listening(app) as url:
        yield url


@pytest.fixture
def viewer(site: str, key_files: dict[str, Path]) -> Tandem:
    """The command with a viewer's key."""
    return Tandem({URL: site}).with_key(key_files["viewer"])


@pytest.fixture
def operator(site: str, key_files: dict[str, Path]) -> Tandem:
    """The command with an operator's key."""
    return Tandem({URL: site}).with_key(key_files["operator"])
