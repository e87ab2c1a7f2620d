"""The audit: every write of an operator, with the key that made it, in the transaction of what it changed."""

import asyncio
import json
from collections.abc import AsyncGenerator

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager

from shared.client import SyncClient
from shared.errors import Forbidden, InvalidTransition
from shared.http.keys import new_key
from shared.schemas.base import Page
from shared.schemas.views import AuditRow
from sync_service.__main__ import main
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.faults.keyring import INSERT, issue
from tests.integration.sync.builder import Builder


async def audit(build: Builder, query: str = "") -> list[tuple[str, str, str | None, str | None]]:
    """Action, target, run and key of each row, the oldest first."""
    page = await build.get(f"/v1/audit?{query}", Page[AuditRow])
    return [(row.action, row.target, row.run, row.key) for row in reversed(page.items)]


async def test_every_write_of_an_operator_is_there_once(build: Builder) -> None:
    run = build.run
    await build.declare(max_attempts=1, groups_per_step=1)
    group = await build.open()
    for call in ("pause", "pause", "resume"):  # the second pause changes nothing
        await build.post(f"/v1/runs/{run}:{call}")
    await build.post(f"/v1/groups/{group}:discard")
    planner = build.trainer("planner")
    for verdict in ("requeue", "skip"):
        await planner.resume()
        delivery = await planner.delivery()
        await planner.release("cuda-error")
        await build.post(f"/v1/deliveries/{delivery.id}:{verdict}")
    await build.client.drain(run)
    await build.client.fail(run, "gave-up")
    await build.post(f"/v1/runs/{run}:purge")
    rows = [(action, target) for action, target, *_ in await audit(build)]
    assert rows == [
        ("run-declare", run),
        ("run-pause", run),
        ("run-resume", run),
        ("group-discard", group),
        ("delivery-requeue", delivery.id),
        ("delivery-skip", delivery.id),
        ("run-drain", run),
        ("run-fail", run),
        ("run-purge", run),
    ]
    (failed,) = await build.sql("SELECT details FROM audit WHERE action = 'run-fail'")
    assert failed.details == {"reason": "gave-up"}


async def test_what_is_refused_is_no_write(build: Builder) -> None:
    await build.declare()
    with pytest.raises(InvalidTransition):
        await build.post(f"/v1/runs/{build.run}:resume")
    assert [action for action, *_ in await audit(build)] == ["run-declare"]


async def test_it_is_read_in_pages_the_newest_first(build: Builder) -> None:
    for name in ("a", "b", "c"):
        await build.client.declare_run(name, build.spec)
    first = await build.get("/v1/audit?limit=2", Page[AuditRow])
    second = await build.get(f"/v1/audit?limit=2&cursor={first.next}", Page[AuditRow])
    assert [row.target for row in first.items + second.items] == ["c", "b", "a"]
    assert [row.target for row in (await build.get("/v1/audit?run=b", Page[AuditRow])).items] == ["b"]


@pytest.fixture
async def keyed(sync_config: SyncConfig) -> AsyncGenerator[dict[str, Builder]]:
    """A builder for an operator's key and for a viewer's, and for a viewer that is bound to run r2."""
    conninfo = sync_config.database_url.replace("+psycopg", "")
    texts: dict[str, str] = {**issue(conninfo)}
    bound, key = new_key("viewer", "r2")
    with psycopg.connect(conninfo) as database:
        database.execute(INSERT, (key.key, key.role, key.run, key.hash))
    app = create_app(sync_config.model_copy(update={"auth": "keys"}))
    async with LifespanManager(app):
        transport = httpx.ASGITransport(app=app)
        keys = {"operator": texts["operator"], "viewer": texts["viewer"], "bound": bound}
        yield {n: Builder(app, SyncClient("http://x", key=key, transport=transport)) for n, key in keys.items()}


async def test_it_names_the_key_and_shows_a_bound_key_its_own_run(keyed: dict[str, Builder]) -> None:
    operator, viewer, bound = keyed["operator"], keyed["viewer"], keyed["bound"]
    for run in ("r1", "r2"):
        await operator.client.declare_run(run, operator.spec)
    names = await operator.sql("SELECT key FROM keys WHERE role = 'operator'")
    assert await audit(viewer) == [("run-declare", run, run, names[0].key) for run in ("r1", "r2")]
    assert [run for _, _, run, _ in await audit(bound)] == ["r2"]
    with pytest.raises(Forbidden):
        await audit(bound, "run=r1")


async def test_keys_that_are_made_and_revoked_are_in_it(build: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    url = build.app.state.service.config.database_url

    async def keys(*words: str) -> str:
        assert await asyncio.to_thread(main, ["keys", *words, "--json", "--database-url", url]) == 0
        return capsys.readouterr().out

    id = json.loads(await keys("add", "--role", "planner", "--run", "r1"))["id"]
    for _ in range(2):  # the second time changes nothing
        await keys("revoke", id)
    assert await audit(build) == [("key-add", id, "r1", None), ("key-revoke", id, "r1", None)]
