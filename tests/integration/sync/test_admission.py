"""Bulk writes that fill the service: what must come in time still answers, and long polls cost nothing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from shared.http.admission import AdmissionConfig
from shared.ids import new_id
from shared.schemas.stream import Heartbeat
from sync_service.config import SyncConfig
from tests.integration.sync.builder import Builder
from tests.waiting import until

IN_WORK, WAITING, HELD = 4, 3, 2
LONG_S = 30.0


@pytest.fixture
def sync_config(sync_config: SyncConfig) -> SyncConfig:
    """A small service, which is easy to fill."""
    small = AdmissionConfig(in_work=IN_WORK, waiting=WAITING)
    return sync_config.model_copy(
        update={"pool_size": 2, "reserved_connections": 1, "admission": small, "held_requests": HELD}
    )


@asynccontextmanager
async def filled(build: Builder) -> AsyncGenerator[list[asyncio.Task]]:
    """Every connection of the pool is busy, and bulk writes fill the places before it and the queue."""
    (bulk, *_) = build.app.state.lanes
    async with AsyncExitStack() as stack:
        for _ in range(build.app.state.service.config.pool_size):
            await stack.enter_async_context(build.app.state.service.database.engine.connect())
        writes = [asyncio.create_task(build.send([build.score(new_id())])) for _ in range(IN_WORK + WAITING)]
        await until(lambda: bulk.waiting == WAITING)
        yield writes
    await asyncio.gather(*writes)


async def test_what_must_come_in_time_does_not_wait_behind_bulk_writes(build: Builder) -> None:
    await build.declare(steps=2, groups_per_step=1)
    await build.fill(1)
    trainer = build.trainer("planner")
    await trainer.resume()
    delivery = await trainer.delivery()
    async with filled(build) as writes, build_http(build) as http:
        beat = Heartbeat(role="planner", url="http://gpu-1:8701")
        await build.client.heartbeat(build.run, "planner-1", beat)
        await trainer.renew()
        await trainer.ack(delivery)
        await trainer.confirm(1)
        await trainer.release()
        assert (await http.get("/readyz")).json()["checks"]["database"] == "ok"
        refused = await http.get("/v1/runs")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert not any(write.done() for write in writes)


async def test_long_polls_hold_no_connection_and_no_place(build: Builder) -> None:
    await build.declare()
    trainers = [build.trainer("planner"), build.trainer("executor")]
    for trainer in trainers:
        await trainer.resume()
    service = build.app.state.service
    asked = [asyncio.create_task(trainer.lease(LONG_S)) for trainer in trainers]
    await until(lambda: len(service.doorbell._waiters[build.run]) == HELD)
    await until(lambda: service.database.engine.pool.checkedout() == 0)
    async with build_http(build) as http:
        refused = await http.get(f"/v1/runs/{build.run}/status?open_step=9&wait=5")
        assert refused.status_code == 429
        assert (await http.get(f"/v1/runs/{build.run}/status?open_step=9&wait=0.0")).status_code == 200
    await build.fill(1)
    assert all(answer.delivery for answer in await asyncio.gather(*asked))


@asynccontextmanager
async def build_http(build: Builder) -> AsyncGenerator[httpx.AsyncClient]:
    """Plain requests, which nobody sends again."""
    transport = httpx.ASGITransport(app=build.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sync") as http:
        yield http
