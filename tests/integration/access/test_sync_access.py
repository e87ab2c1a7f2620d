"""The sync service, route by route and key by key: who is let in, who is 401, who is 403."""

import json
from collections.abc import AsyncGenerator

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.client import SyncClient
from shared.ids import new_id
from sync_service import keys as module
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.routes import events
from tests.integration.access.matrix import OF_ALL_RUNS, OTHER, PAGES, RUN, SYNC, Caller, Keyring, ask, routes, tries
from tests.integration.access.things import things
from tests.integration.sync.builder import Builder
from tests.listening import listening
from tests.waiting import until


@pytest.fixture
def keyring() -> Keyring:
    """Fresh keys."""
    return Keyring()


@pytest.fixture
async def build(sync_app: FastAPI, sync_client: SyncClient, keyring: Keyring) -> Builder:
    """RUN, and the keys in the database."""
    builder = Builder(sync_app, sync_client, RUN)

    async def keep(connection) -> None:
        await store.keys.insert(connection, keyring.live + keyring.revoked)
        for key in keyring.revoked:
            await store.keys.revoke(connection, key.key)

    await sync_app.state.service.database.transaction(keep)
    return await builder.declare(groups_per_step=1)


@pytest.fixture
async def guarded(build: Builder, sync_config: SyncConfig, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[FastAPI]:
    """The service with keys, on the same database."""
    monkeypatch.setattr(module, "REFRESH_S", 0.02)
    app = create_app(sync_config.model_copy(update={"auth": "keys"}))
    async with LifespanManager(app):
        yield app


@pytest.fixture
async def http(guarded: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """A bare client."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=guarded), base_url="http://sync") as client:
        yield client


def test_every_route_is_in_the_matrix(sync_config: SyncConfig):
    assert routes(create_app(sync_config)) == set(SYNC) | set(PAGES)


async def test_who_is_refused_is_told_why_and_changes_nothing(build: Builder, http: httpx.AsyncClient, keyring):
    ids, bodies = await things(build)
    before = await build.client.status(RUN)
    wrong = []
    for call, caller, refusal in tries(SYNC, keyring, OF_ALL_RUNS):
        if refusal is None:
            continue
        answer = await ask(http, call, caller, ids, bodies.get(call))
        type = {401: "urn:tandem:unauthorized", 403: "urn:tandem:forbidden"}[refusal]
        if answer.status_code != refusal or answer.json()["type"] != type:
            wrong.append((call, caller.name, answer.status_code, refusal))
        assert ("www-authenticate" in answer.headers) == (refusal == 401)
    assert wrong == []
    assert await build.client.status(RUN) == before


async def test_who_is_allowed_is_let_in(build: Builder, http: httpx.AsyncClient, keyring: Keyring):
    ids, bodies = await things(build)
    shut = []
    for call, caller, refusal in tries(SYNC, keyring, OF_ALL_RUNS):
        if refusal is None:
            answer = await ask(http, call, caller, ids, bodies.get(call))
            if answer.status_code in (401, 403) or answer.status_code >= 500:
                shut.append((call, caller.name, answer.text))
    assert shut == []


async def test_a_trainer_acts_as_no_other(build: Builder, http: httpx.AsyncClient, keyring: Keyring):
    _, bodies = await things(build)
    callers = {role: Caller(role, keyring.key(role), role) for role in ("planner", "executor")}
    for own, other in (("planner", "executor"), ("executor", "planner")):
        for call in (call for call in SYNC if "{role}" in call):
            answer = await ask(http, call, callers[own], {"role": other}, bodies[call])
            assert answer.status_code == 403, (call, own)
        beat = bodies["PUT /v1/runs/{run}/workers/{worker}"] | {"role": other}
        header = {"authorization": keyring.key(own)}
        assert (await http.put(f"/v1/runs/{RUN}/workers/w", json=beat, headers=header)).status_code == 403
        assert (await http.put(f"/v1/runs/{RUN}/workers/{own}-1", json=beat | {"role": own}, headers=header)).is_success
        stolen = await http.put(
            f"/v1/runs/{RUN}/workers/{own}-1", json=beat, headers={"authorization": keyring.key(other)}
        )
        assert stolen.status_code == 409


async def test_an_item_of_another_run_is_refused_alone(build: Builder, http: httpx.AsyncClient, keyring: Keyring):
    group = await build.open()
    other = await Builder(build.app, build.client, OTHER).declare()
    theirs = await other.open()
    for role, mine, foreign in (
        ("planner", build.rollout(group), other.rollout(theirs)),
        ("executor", build.score(new_id()), other.score(new_id())),
    ):
        noun = {"planner": "rollouts", "executor": "trajectories"}[role]
        body = {"items": [json.loads(item.model_dump_json()) for item in (foreign, mine)]}
        for spoiled in ({}, {"surprise": 1}):
            body["items"].append({"id": new_id(), "body": spoiled})  # read one by one, or as a whole
            answer = await http.post(f"/v1/{noun}:batch", json=body, headers={"authorization": keyring.key(role, RUN)})
            refused, accepted, *_ = answer.json()["items"]
            assert (refused["status"], refused["problem"]["type"]) == (403, "urn:tandem:forbidden")
            assert accepted["status"] == 200
    assert (await build.client.status(OTHER)).rollouts == {}


async def test_a_bound_key_lists_its_own_run_alone(build: Builder, http: httpx.AsyncClient, keyring: Keyring):
    await Builder(build.app, build.client, OTHER).declare()

    async def listed(run: str | None) -> list[str]:
        answer = await http.get("/v1/runs", headers={"authorization": keyring.key("viewer", run)})
        return [item["run"] for item in answer.json()["items"]]

    assert [await listed(run) for run in (None, RUN, OTHER)] == [[RUN, OTHER], [RUN], [OTHER]]


async def test_an_anonymous_body_is_not_read(http: httpx.AsyncClient):
    async def body():
        yield b"{"
        raise AssertionError("the body was read")

    assert (await http.put(f"/v1/rollouts/{new_id()}", content=body())).status_code == 401


async def test_a_key_is_added_and_revoked_while_the_service_runs(build: Builder, http: httpx.AsyncClient):
    fresh = Keyring()
    header = {"authorization": fresh.key("viewer")}
    (key,) = [key for key in fresh.live if (key.role, key.run) == ("viewer", None)]
    database = build.app.state.service.database

    async def status() -> int:
        return (await http.get("/v1/runs", headers=header)).status_code

    async def refused() -> bool:
        return await status() == 401

    assert await status() == 401
    await database.transaction(lambda connection: store.keys.insert(connection, [key]))
    await until(lambda: _is(status, 200))
    await database.transaction(lambda connection: store.keys.revoke(connection, key.key))
    await until(lambda: _is(status, 401))
    await database.transaction(lambda connection: store.keys.insert(connection, [key]))
    (row,) = [row for row in await database.read(store.keys.everything) if row.key == key.key]
    assert row.revoked_at is not None


async def _is(status, wanted: int) -> bool:
    return await status() == wanted


async def test_no_secret_is_in_the_database(build: Builder, keyring: Keyring):
    stored = str(await build.sql("SELECT * FROM keys")) + str(await build.sql("SELECT * FROM audit"))
    assert all(
        caller.header.rpartition("_")[2] not in stored for caller in keyring.callers if caller.role and caller.header
    )


async def test_a_stream_of_events_ends_with_its_key(
    build: Builder, guarded: FastAPI, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "KEEPALIVE_S", 0.05)
    (key,) = [key for key in keyring.live if (key.role, key.run) == ("viewer", RUN)]
    headers = {"authorization": keyring.key("viewer", RUN), "accept": "text/event-stream"}
    database = build.app.state.service.database
    async with listening(guarded) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        async with http.stream("GET", "/v1/events", headers=headers) as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("id: ")
            await database.transaction(lambda connection: store.keys.revoke(connection, key.key))
            assert [line async for line in lines]
        assert (await http.get("/v1/events", headers=headers)).status_code == 401
