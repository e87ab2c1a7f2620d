"""Only the database's clock counts: an hour more or less on a client's or the service's clock moves no deadline."""

import time
import uuid

import pytest

from shared.errors import LeaseLost, StreamHeld
from sync_service import reaper
from tests.faults.walk import RUN, walk
from tests.integration.sync.builder import Builder

HOUR_S = 3600.0


@pytest.fixture(params=[HOUR_S, -HOUR_S], ids=["fast", "slow"])
def wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """The wall clock of this process, client and service alike, is off; how far."""
    right, right_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: right() + request.param)
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + int(request.param * 1e9))
    return request.param


async def nothing() -> None:
    """No other fault."""


def id_at(offset_s: float) -> str:
    """A UUIDv7 as a machine with this clock makes it."""
    stamp = int(time.time() * 1000) + int(offset_s * 1000)
    return str(uuid.UUID(int=(stamp << 80) | (0x7 << 76) | (uuid.uuid4().int & ((1 << 62) - 1)) | (0b10 << 62)))


async def test_a_whole_run_ends_as_ever(build: Builder, wrong_clock: float) -> None:
    await walk(build.client, nothing)
    assert (await build.client.run(RUN)).state == "finished"


async def test_a_lease_lives_by_the_database(build: Builder, wrong_clock: float) -> None:
    await build.declare(lease_ttl_s=60)
    await build.fill(1, calls=0)
    holder, rival = build.trainer("planner", "one"), build.trainer("planner", "two")
    await holder.resume()
    delivery = await holder.delivery()
    await reaper.sweep(build.app.state.service.database)
    with pytest.raises(StreamHeld):
        await rival.resume()
    await holder.ack(delivery)
    (lease,) = await build.sql("SELECT extract(epoch FROM expires_at - clock_timestamp()) AS s FROM streams LIMIT 1")
    assert lease.s is None or 0 < lease.s <= 60
    await build.expire_lease("planner")
    with pytest.raises(LeaseLost):
        await holder.renew()


async def test_deadlines_of_groups_are_the_databases_and_ids_tell_no_time(build: Builder, wrong_clock: float) -> None:
    await build.declare(rollout_deadline_s=60)
    group = await build.open()
    early, late = (build.rollout(group, slot, id=id_at(sign * HOUR_S)) for slot, sign in enumerate((-1, 1)))
    await reaper.sweep(build.app.state.service.database)
    result = await build.report(early, late)
    assert [item.accepted for item in result.items] == [True, True]
    assert (await build.group(group)).state == "complete"
