"""What the database itself refuses, whatever the code above it does."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager

from shared.client import SyncClient
from shared.errors import Conflict
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.sync.builder import Builder


@pytest.fixture
def raw(database: str) -> Generator[psycopg.Connection]:
    """The database without the service."""
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


NUMBERS = ("NaN", "Infinity", "-Infinity", "1.5", "-0.1")


async def test_a_reward_that_would_poison_a_batch(build: Builder, raw: psycopg.Connection) -> None:
    await build.declare()
    await build.fill(1)
    for table, name in (("rollouts", "r_correct"), ("trajectories", "r_expert")):
        for number in NUMBERS:
            with pytest.raises(psycopg.errors.CheckViolation, match=f"{name}_in_bounds"):
                raw.execute(f"UPDATE {table} SET {name} = '{number}'".encode())


PLACES = {
    "groups_place": """
        INSERT INTO groups (id, run, step, index, task_id, deadline)
        SELECT gen_random_uuid(), run, step, index, 'other', deadline FROM groups""",
    "rollouts_slot": """
        INSERT INTO rollouts (id, run, group_id, slot, state, executor_trajectories, tokens, digest)
        SELECT gen_random_uuid(), run, group_id, slot, 'aborted', '{}', 0, '' FROM rollouts""",
    "deliveries_place": """
        INSERT INTO deliveries (id, run, role, step) SELECT gen_random_uuid(), run, role, step FROM deliveries""",
}


async def test_a_place_that_is_taken(build: Builder, raw: psycopg.Connection) -> None:
    await build.declare()
    await build.fill(1)
    for key, statement in PLACES.items():
        with pytest.raises(psycopg.errors.UniqueViolation, match=key):
            raw.execute(statement.encode())


@pytest.fixture
async def elsewhere(build: Builder, sync_config: SyncConfig) -> AsyncGenerator[Builder]:
    """The same run by way of another process of the service: one process takes the groups of a run in turn."""
    app = create_app(sync_config)
    async with (
        LifespanManager(app),
        SyncClient("http://other", transport=httpx.ASGITransport(app=app), retry_for_s=5) as client,
    ):
        yield Builder(app, client, build.run, build.spec)


async def test_of_two_who_open_one_place_at_once_one_does(
    build: Builder, elsewhere: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival's whole transaction comes between our look at the place and our write."""
    await build.declare()
    look, rivals = store.groups.admission, [elsewhere.open]

    async def interrupted(*arguments: Any) -> Any:
        found = await look(*arguments)
        if rivals:
            await rivals.pop()()
        return found

    monkeypatch.setattr(store.groups, "admission", interrupted)
    with pytest.raises(Conflict, match="is held by group"):
        await build.open()
    (batch,) = await build.sql("SELECT opened FROM batches")
    assert batch.opened == 1
