"""Long polls: woken by Redis or by the clock of the poll, with the same results; they end with the service."""

import asyncio
from collections.abc import AsyncGenerator
from types import ModuleType

import httpx
import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.client import SyncClient
from shared.errors import LeaseLost
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.sync.builder import Builder
from tests.waiting import until

LONG_S = 30.0


@pytest.fixture
def sync_config(either_doorbell: SyncConfig) -> SyncConfig:
    """Every test here runs with Redis and without."""
    return either_doorbell


async def waiting(app: FastAPI, run: str) -> None:
    """Until somebody waits in `run`."""
    await until(lambda: run in app.state.service.doorbell._waiters)


async def test_a_lease_is_answered_when_the_batch_is_cut(build: Builder) -> None:
    await build.declare()
    planner = build.trainer("planner")
    await planner.resume()
    asked = asyncio.create_task(planner.lease(LONG_S))
    await waiting(build.app, build.run)
    await build.fill(1, calls=0)
    answer = await asked
    assert answer.delivery is not None
    assert answer.delivery.step == 1


async def test_a_status_is_answered_when_the_step_may_be_opened(build: Builder) -> None:
    await build.declare(staleness=0)
    trainers = build.trainer("planner"), build.trainer("executor")
    await build.fill(1)
    asked = asyncio.create_task(build.client.status(build.run, open_step=2, wait_s=LONG_S))
    await waiting(build.app, build.run)
    for trainer in trainers:
        assert not asked.done()
        await trainer.resume()
        await trainer.train()
    assert (await asked).open_through == 2


@pytest.mark.parametrize("end", ["drain", "fail"])
async def test_a_status_is_answered_when_the_step_never_will_be(build: Builder, end: str) -> None:
    await build.declare(staleness=0)
    await build.open(1)
    asked = asyncio.create_task(build.client.status(build.run, open_step=2, wait_s=LONG_S))
    await waiting(build.app, build.run)
    await build.post(f"/v1/runs/{build.run}:{end}")
    assert (await asked).state == ("draining" if end == "drain" else "failed")


async def test_a_pause_holds_a_status_and_its_end_answers_it(build: Builder) -> None:
    await build.declare()
    await build.open(1)
    await build.post(f"/v1/runs/{build.run}:pause")
    assert (await build.client.status(build.run, open_step=1, wait_s=0.0)).state == "paused"
    asked = asyncio.create_task(build.client.status(build.run, open_step=1, wait_s=LONG_S))
    await waiting(build.app, build.run)
    await build.post(f"/v1/runs/{build.run}:resume")
    assert (await asked).state == "running"


async def test_a_wait_that_ends_without_its_event_says_so(build: Builder) -> None:
    await build.declare()
    planner = build.trainer("planner")
    await planner.resume()
    answer = await planner.lease(0.2)
    assert (answer.delivery, answer.finished, answer.ttl_s) == (None, False, 30.0)
    assert (await build.client.status(build.run, open_step=3, wait_s=0.2)).open_through == 2


async def test_a_lease_that_is_lost_while_it_waits_says_so(build: Builder) -> None:
    await build.declare()
    planner = build.trainer("planner")
    await planner.resume()
    asked = asyncio.create_task(planner.lease(LONG_S))
    await waiting(build.app, build.run)
    await build.trainer("planner").resume()
    with pytest.raises(LeaseLost):
        await asked


async def test_waiting_does_not_keep_a_lease_alive_for_a_trainer_that_is_gone(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await build.declare()
    planner = build.trainer("planner")
    await planner.resume()
    looks = count_calls(monkeypatch, store.deliveries, "next_unacked")
    renewals = count_calls(monkeypatch, store.streams, "renew")
    asked = asyncio.create_task(planner.lease(LONG_S))
    await until(lambda: len(looks) >= 2)
    assert len(renewals) == 1, "the call itself is a sign of life; looking again on its behalf is none"
    await build.expire_lease("planner")
    with pytest.raises(LeaseLost):
        await asked


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[str]:
    """A list that grows with each call of a statement."""
    calls, statement = [], getattr(module, name)

    async def counted(*arguments, **named):
        calls.append(name)
        return await statement(*arguments, **named)

    monkeypatch.setattr(module, name, counted)
    return calls


async def test_a_stop_ends_every_wait(build: Builder) -> None:
    await build.declare()
    planner = build.trainer("planner")
    await planner.resume()
    asked = asyncio.create_task(planner.lease(60.0))
    await waiting(build.app, build.run)
    build.app.state.on_stop()
    async with asyncio.timeout(30):
        assert (await asked).delivery is None


@pytest.fixture
async def second_process(sync_config: SyncConfig) -> AsyncGenerator[SyncClient]:
    """Another app on the same database and Redis, as another process would be."""
    app = create_app(sync_config)
    async with LifespanManager(app), SyncClient("http://two", transport=httpx.ASGITransport(app=app)) as client:
        yield client


async def test_a_change_in_one_process_answers_a_wait_in_another(build: Builder, second_process: SyncClient) -> None:
    await build.declare()
    planner = build.trainer("planner")
    await planner.resume()
    planner.client = second_process
    asked = asyncio.create_task(planner.lease(LONG_S))
    await build.fill(1, calls=0)
    assert (await asked).delivery is not None


async def test_redis_wakes_long_before_the_poll_would(database: str, redis_url: str, sync_config: SyncConfig) -> None:
    config = sync_config.model_copy(update={"redis_url": redis_url, "poll_s": 3000, "poll_with_redis_s": 3000})
    app = create_app(config)
    async with LifespanManager(app), SyncClient("http://x", transport=httpx.ASGITransport(app=app)) as client:
        build = await Builder(app, client).declare()
        planner = build.trainer("planner")
        await planner.resume()
        asked = asyncio.create_task(planner.lease(60.0))
        await until(lambda: app.state.service.doorbell._connected)
        await waiting(app, build.run)
        await build.fill(1, calls=0)
        async with asyncio.timeout(30):
            assert (await asked).delivery is not None


async def test_without_a_redis_at_its_url_the_waiters_poll(database: str, sync_config: SyncConfig) -> None:
    app = create_app(sync_config.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"}))
    async with LifespanManager(app), SyncClient("http://x", transport=httpx.ASGITransport(app=app)) as client:
        build = await Builder(app, client).declare()
        planner = build.trainer("planner")
        await planner.resume()
        asked = asyncio.create_task(planner.lease(LONG_S))
        await waiting(app, build.run)
        await build.fill(1, calls=0)
        assert (await asked).delivery is not None
