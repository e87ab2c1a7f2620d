"""Health, heartbeats and the reaper's lock: what is about the service and not about a run's data."""

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager
from sqlalchemy import text

from shared.client import SyncClient
from shared.errors import NotFound
from shared.ids import new_id
from shared.schemas.base import Page
from shared.schemas.run import RunSpec
from shared.schemas.stream import Heartbeat
from shared.schemas.views import WorkerRow
from sync_service import database, migrate, reaper, store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.sync.builder import VERSION, Builder
from tests.waiting import until

FIXED = new_id()


async def readiness(config: SyncConfig) -> httpx.Response:
    """What `/readyz` answers under this configuration."""
    app = create_app(config)
    async with (
        LifespanManager(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://x") as http,
    ):
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        return await http.get("/readyz")


async def test_it_is_ready_when_database_schema_and_disk_are(sync_config: SyncConfig) -> None:
    response = await readiness(sync_config)
    assert response.status_code == 200
    assert response.json() == {"ready": True, "checks": dict.fromkeys(("database", "migration", "disk"), "ok")}


async def test_a_database_that_does_not_answer_is_named(sync_config: SyncConfig) -> None:
    away = sync_config.model_copy(update={"database_url": "postgresql+psycopg://nobody@127.0.0.1:1/none"})
    response = await readiness(away)
    assert response.status_code == 503
    checks = response.json()["checks"]
    assert "does not answer" in checks["database"]
    assert checks["disk"] == "ok"


async def test_a_loop_that_dies_ends_the_service_and_is_named(
    sync_config: SyncConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(_: object) -> None:
        raise RuntimeError("a fault that nobody foresaw")

    monkeypatch.setattr(reaper, "run", dies)
    app, stopped = create_app(sync_config), []
    app.state.stop = lambda: stopped.append(True)
    async with LifespanManager(app):
        await until(lambda: stopped)
    assert str(app.state.fault) == "a fault that nobody foresaw"


async def test_a_schema_of_another_version_is_named(build: Builder, sync_config: SyncConfig) -> None:
    await build.sql("UPDATE alembic_version SET version_num = '0000'")
    try:
        response = await readiness(sync_config)
    finally:
        await build.sql("UPDATE alembic_version SET version_num = :head", head=migrate.head())
    assert response.status_code == 503
    assert "0000" in response.json()["checks"]["migration"]


async def test_a_full_disk_is_named(sync_config: SyncConfig) -> None:
    response = await readiness(sync_config.model_copy(update={"disk_free_bytes": 2**60}))
    assert response.status_code == 503
    assert "bytes are free" in response.json()["checks"]["disk"]


async def test_connections_that_postgres_ends_are_made_anew(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    for _ in range(2):
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tandem-sync'"
        with psycopg.connect(build.app.state.service.config.database_url.replace("+psycopg", "")) as connection:
            connection.execute(others)
        await build.report(build.rollout(group, 0, id=FIXED, planner_trajectory=FIXED, calls=0))
    assert (await build.group(group)).final_slots == (0,)


async def test_when_every_connection_is_busy_the_caller_is_asked_to_come_back(
    sync_config: SyncConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "POOL_WAIT_S", 0.05)
    app = create_app(sync_config.model_copy(update={"pool_size": 1}))
    transport = httpx.ASGITransport(app=app)
    async with LifespanManager(app), httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        await until(lambda: app.state.service.database.engine.pool.checkedout() == 0)
        async with app.state.service.database.engine.connect():
            response = await http.get("/v1/runs")
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
        assert response.json()["retryable"] is True
        assert (await http.get("/v1/runs")).status_code == 200


async def test_a_heartbeat_is_the_last_word_of_a_worker(build: Builder) -> None:
    await build.declare()
    beat = Heartbeat(role="executor", url="http://gpu-2:8702", device="cuda:0", version=VERSION, doing="step 4")
    await build.client.heartbeat(build.run, "executor-1", beat)
    await build.client.heartbeat(build.run, "executor-1", beat.model_copy(update={"doing": "step 5", "draining": True}))
    await build.client.heartbeat(build.run, "planner-1", Heartbeat(role="planner", url="http://gpu-1:8701"))
    first, second = (await build.get(f"/v1/runs/{build.run}/workers", Page[WorkerRow])).items
    assert (first.worker, first.device, first.version, first.doing) == ("executor-1", "cuda:0", VERSION, "step 5")
    assert (first.draining, second.worker, second.version) == (True, "planner-1", None)
    with pytest.raises(NotFound):
        await build.client.heartbeat("none", "w", beat)


async def test_one_reaper_sweeps_at_a_time(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    await build.pass_deadline("deadline", group)
    pool = build.app.state.service.database
    async with pool.engine.begin() as other:
        await other.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": store.locks.SWEEP_KEY})
        assert await reaper.sweep(pool) == set()
    assert (await build.group(group)).state == "open"
    assert await reaper.sweep(pool) == {build.run}


async def test_a_sweep_goes_through_any_number_of_groups(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "BATCH", 2)
    await build.declare(groups_per_step=5)
    for index in range(5):
        await build.open(1, index)
    await build.sql("UPDATE groups SET deadline = now() - interval '1 s'")
    await reaper.sweep(build.app.state.service.database)
    assert (await build.client.status(build.run)).groups == {"discarded": 5}


async def test_the_reaper_of_the_service_closes_what_is_due(sync_config: SyncConfig) -> None:
    app = create_app(sync_config.model_copy(update={"reaper_s": 0.02}))
    transport = httpx.ASGITransport(app=app)
    async with LifespanManager(app), SyncClient("http://x", transport=transport) as client:
        spec = RunSpec(steps=1, rollouts_per_group=2, groups_per_step=1, rollout_deadline_s=0.05)
        build = await Builder(app, client, spec=spec).declare()
        await build.open()
        planner = build.trainer("planner")
        await planner.resume()
        answer = await planner.lease(20.0)
        assert answer.delivery is not None
        assert answer.delivery.groups[0].state == "discarded"
