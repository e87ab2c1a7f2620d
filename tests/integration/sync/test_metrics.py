"""The sync service's own metrics: what lives, in which state; labels name living runs, never a worker or an id."""

import re

import httpx
import pytest

from sync_service import reaper, store
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
        'tandem_sync_run_state{run="r1",state="running"}': 1,
        'tandem_sync_run_steps{run="r1"}': 3,
        'tandem_sync_run_staleness_bound{run="r1"}': 1,
        'tandem_sync_groups{run="r1",state="scoring"}': 2,
        'tandem_sync_group_overdue_seconds{run="r1"}': 0,
        'tandem_sync_deliveries{role="planner",run="r1",state="ready"}': 2,
        'tandem_sync_deliveries{role="executor",run="r1",state="ready"}': 1,
        'tandem_sync_deliveries{role="executor",run="r1",state="waiting"}': 1,
        'tandem_sync_lease_held{role="executor",run="r1"}': 0,
        'tandem_sync_stalls{code="no-trainer",run="r1"}': 1,
        "tandem_sync_database_up": 1,
        "tandem_sync_doorbell_configured": 1,
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
    assert 'tandem_sync_groups{run="r1",state="open"}' in await scrape(build)
    await build.sql("UPDATE groups SET deadline = now()")
    await reaper.sweep(build.app.state.service.database)
    assert 'tandem_sync_groups{run="r1",state="open"}' not in await scrape(build)
    await build.sql("UPDATE runs SET state = 'failed'")
    found = await scrape(build)
    assert found['tandem_sync_runs{state="failed"}'] == 1
    assert not any('run="r1"' in name for name in found)


async def test_a_group_past_its_deadline_is_overdue_but_not_while_its_run_is_paused(build: Builder) -> None:
    await build.declare()
    await build.pass_deadline("deadline", await build.open())
    overdue = 'tandem_sync_group_overdue_seconds{run="r1"}'
    assert (await scrape(build))[overdue] >= 1
    await build.sql("UPDATE runs SET state = 'paused', paused_at = now()")
    assert (await scrape(build))[overdue] == 0


async def test_a_stream_shows_its_lease_its_steps_and_what_its_samplers_hold(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    trainer = build.trainer("planner", "a-worker-of-that-name")
    await trainer.resume()
    await trainer.train()
    found, of = await scrape(build), '{role="planner",run="r1"}'
    expected = {"lease_held": 1, "epoch": 1, "acked_step": 1, "live_step": 1, "policy_updates": 1}
    assert {name: found[f"tandem_sync_{name}{of}"] for name in expected} == expected
    assert found[f"tandem_sync_policy_age_seconds{of}"] >= 0
    for name in found:
        assert not ID.search(name), name
        assert "a-worker" not in name, name


async def test_no_more_than_the_newest_hundred_runs_have_series(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.live, "MOST_RUNS", 1)
    await build.declare()
    build.run = "r2"
    await build.declare()
    found = await scrape(build)
    assert found['tandem_sync_runs{state="declared"}'] == 2
    assert 'tandem_sync_run_steps{run="r2"}' in found
    assert 'tandem_sync_run_steps{run="r1"}' not in found


async def test_while_the_database_is_away_the_rest_is_answered(sync_config: SyncConfig) -> None:
    away = sync_config.model_copy(update={"database_url": "postgresql+psycopg://nobody@127.0.0.1:1/none"})
    found = await scraped(httpx.ASGITransport(app=create_app(away)))
    assert "tandem_http_in_flight" in found
    assert found["tandem_sync_database_up"] == 0
    assert not any(name.startswith("tandem_sync_runs") for name in found)
