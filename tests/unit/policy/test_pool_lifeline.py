"""The end of a Ray cluster, of its head or of this machine's part, is the end of what stands on it."""

import asyncio
from collections.abc import AsyncGenerator

import psutil
import pytest

from shared.errors import Unavailable
from shared.policy.pool import lifeline
from shared.policy.pool.cluster import Cluster
from shared.policy.pool.lifeline import gone
from shared.policy.pool.sampler import SamplerPool
from shared.policy.pool.trainer import ShardedTrainer

LIMIT_S = 60


@pytest.fixture
async def server() -> AsyncGenerator[asyncio.Server]:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        yield server


async def test_a_part_that_listens_no_more_is_named(server, monkeypatch):
    monkeypatch.setattr(lifeline, "POLL_S", 0.01)
    monkeypatch.setattr(lifeline, "SILENT_S", 0.05)
    place = server.sockets[0].getsockname()
    watch = asyncio.create_task(gone({"the head": place}))
    await asyncio.wait({watch}, timeout=0.2)
    assert not watch.done()
    server.close()
    assert (
        await asyncio.wait_for(watch, LIMIT_S)
        == f"the head at {place[0]}:{place[1]} is gone: nothing has listened there for 0.05 s"
    )


class Ground:
    def __init__(self) -> None:
        self.death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.released = False

    async def died(self) -> str:
        return await asyncio.shield(self.death)

    async def release(self) -> None:
        self.released = True


class Starting:
    """A replica or a shard that waits for room in the cluster."""

    info: dict[str, object] = {}
    closed: float | None = None

    async def ready(self) -> None:
        await asyncio.Event().wait()

    async def died(self) -> str:
        await asyncio.Event().wait()
        return ""

    async def close(self, timeout_s: float = 10.0) -> None:
        self.closed = timeout_s


@pytest.mark.parametrize("kind", ["sampler", "trainer"])
async def test_what_stands_on_it_ends_with_it_and_waits_for_nobody(kind, tmp_path):
    ground, part = Ground(), Starting()

    async def start(place: int) -> Starting:
        return part

    if kind == "sampler":
        made = SamplerPool(start, 1, tmp_path / "replicas", ground)
    else:
        made = ShardedTrainer([part], tmp_path, ground=ground)
    starting = asyncio.create_task(made.ready())
    await asyncio.sleep(0)
    ground.death.set_result("the head is gone")
    with pytest.raises(Unavailable, match="the head is gone"):
        await asyncio.wait_for(starting, LIMIT_S)
    assert await asyncio.wait_for(made.died(), LIMIT_S) == "the head is gone"
    await made.close()
    assert (part.closed, ground.released) == (0.0, True)


@pytest.mark.ray
async def test_what_is_killed_of_a_cluster_is_named(monkeypatch):
    monkeypatch.setattr(lifeline, "SILENT_S", 1.0)
    cluster = Cluster(None, 1)
    await cluster.open()
    try:
        for process, name in (
            ("raylet", "the Ray node of this machine"),
            ("gcs_server", "the head of the Ray cluster"),
        ):
            (found,) = (p for p in psutil.Process().children(recursive=True) if p.name() == process)
            found.kill()
            assert (await asyncio.wait_for(cluster.died(), LIMIT_S)).startswith(f"{name} at ")
    finally:
        await asyncio.wait_for(cluster.release(), LIMIT_S)
