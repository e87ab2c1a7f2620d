"""The sync service's own metrics: what lives, in which state; no label names a run, a worker or an id."""

import re

import httpx

from sync_service import reaper
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.sync.builder import Builder
from tests.waiting import until

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


async def scrape(build: Builder) -> dict[str, float]:
    """Each sample of `/metrics`, by its name and labels."""
    return await scraped(httpx.ASGITransport(app=build.app))


async def scraped(transport: httpx.ASGITransport) -> dict[str, float]:
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        response = await http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = (line.rpartition(" ") for line in response.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_what_lives_is_counted_by_state(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    await build.fill(2, scored=False)
    await build.sql("INSERT INTO stalls VALUES (:run, 'no-trainer', 'planner', 1, now())", run=build.run)
    await build.app.state.service.feed.number()
    found = await scrape(build)
    expected = {
        'tandem_sync_runs{state="running"}': 1,
        'tandem_sync_groups{state="scoring"}': 2,
        'tandem_sync_deliveries{role="planner",state="ready"}': 2,
        'tandem_sync_deliveries{role="executor",state="ready"}': 1,
        'tandem_sync_deliveries{role="executor",state="waiting"}': 1,
        'tandem_sync_stalls{code="no-trainer"}': 1,
        'tandem_sync_events_total{kind="group-sealed"}': 2,
        'tandem_sync_database_connections{pool="urgent"}': 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["tandem_sync_received_bytes_total"] > 0
    assert found["tandem_sync_event_lag_seconds_count"] >= 2
    await until(lambda: build.app.state.service.doorbell.connected)
    assert (await scrape(build))["tandem_sync_doorbell_connected"] == 1


async def test_what_is_over_is_no_longer_there(build: Builder) -> None:
    await build.declare()
    await build.open()
    assert 'tandem_sync_groups{state="open"}' in await scrape(build)
    await build.sql("UPDATE groups SET deadline = now()")
    await reaper.sweep(build.app.state.service.database)
    assert 'tandem_sync_groups{state="open"}' not in await scrape(build)


async def test_no_label_names_a_run_a_worker_or_an_id(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    trainer = build.trainer("planner", "a-worker-of-that-name")
    await trainer.resume()
    await trainer.train()
    for name in await scrape(build):
        assert not ID.search(name), name
        assert f'"{build.run}"' not in name, name
        assert "a-worker" not in name, name


async def test_while_the_database_is_away_the_rest_is_answered(sync_config: SyncConfig) -> None:
    away = sync_config.model_copy(update={"database_url": "postgresql+psycopg://nobody@127.0.0.1:1/none"})
    found = await scraped(httpx.ASGITransport(app=create_app(away)))
    assert "tandem_http_in_flight" in found
    assert not any(name.startswith("tandem_sync_runs") for name in found)
