"""The stream of a run's panels: what is sent, how often a run is read, and when a stream ends."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.errors import Overloaded
from shared.schemas.stream import Heartbeat
from sync_service.dashboard import live as module
from sync_service.dashboard import panels
from sync_service.dashboard.live import Live, frame
from tests.integration.sync.builder import Builder


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACE_S", 0.02)
    monkeypatch.setattr(module, "SHARE", 1000.0)
    monkeypatch.setattr(module, "ALIVE_S", 0.1)


def live_of(build: Builder) -> Live:
    return build.app.state.live


async def names(frames: AsyncIterator[bytes], until: str) -> list[str]:
    """The events up to the first one of this name."""
    seen = []
    async with asyncio.timeout(30):
        async for sent in frames:
            if sent.startswith(b"event:"):
                seen.append(sent.split(b"\n")[0].removeprefix(b"event: ").decode())
                if seen[-1] == until:
                    break
    return seen


def whether_over() -> bool:
    return False


async def test_all_is_sent_at_first_and_then_what_has_changed(build: Builder):
    await build.declare()
    frames = live_of(build).frames("r1", False, whether_over)
    assert await names(frames, "alive") == [*panels.NAMES, "alive"]
    assert await names(frames, "alive") == ["alive"]
    await build.client.heartbeat("r1", "planner-1", Heartbeat(role="planner", url="http://127.0.0.1:1"))
    assert await names(frames, "workers") in (["workers"], ["alive", "workers"])
    await build.open()
    changed = await names(frames, "happened")
    assert "attention" in changed
    assert "policies" not in changed


async def test_a_run_is_read_once_for_all_who_watch(build: Builder, monkeypatch: pytest.MonkeyPatch):
    reads = 0

    async def counted(*given):
        nonlocal reads
        reads += 1
        return await read(*given)

    read = panels.read
    monkeypatch.setattr(panels, "read", counted)
    monkeypatch.setattr(module, "PACE_S", 30.0)
    await build.declare()
    streams = [live_of(build).frames("r1", place % 2 == 0, whether_over) for place in range(100)]
    seen = await asyncio.gather(*(names(stream, "alive") for stream in streams))
    assert all(len(events) == len(panels.NAMES) + 1 for events in seen)
    assert reads == 1


async def test_one_slow_read_keeps_no_old_picture_for_long(build: Builder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SHARE", 1e-9)
    monkeypatch.setattr(module, "SLOWEST_S", 0.0)
    await build.declare()
    first = await live_of(build).snapshot("r1")
    assert await live_of(build).snapshot("r1") is not first


async def test_a_stream_ends_with_its_session_its_time_and_the_service(build: Builder, monkeypatch: pytest.MonkeyPatch):
    await build.declare()
    over = False
    frames = live_of(build).frames("r1", False, lambda: over)
    await names(frames, "alive")
    over = True
    assert (await names(frames, "nothing"))[-1] == "over"  # and it ends
    monkeypatch.setattr(module, "STREAM_S", 0.05)
    await names(live_of(build).frames("r1", False, whether_over), "nothing")
    monkeypatch.setattr(module, "STREAM_S", 600.0)
    frames = live_of(build).frames("r1", False, whether_over)
    await names(frames, "alive")
    build.app.state.service.doorbell.stop()
    await names(frames, "nothing")


async def test_a_key_has_so_many_streams(build: Builder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "STREAMS_PER_KEY", 2)
    live = live_of(build)
    live.take_seat("a")
    live.take_seat("a")
    with pytest.raises(Overloaded):
        live.take_seat("a")
    live.take_seat("b")
    live.leave("a")
    live.take_seat("a")


@pytest.mark.parametrize("text", ["a\r\ndata: b", "a\rdata: b", "a\n\nevent: b", "a\r\revent: b"])
def test_no_text_ends_its_event(text: str):
    lines = frame("sync", text).decode().split("\n")
    assert lines[0] == "event: sync"
    assert lines[-2:] == ["", ""]
    assert all(line.startswith("data: ") and "\r" not in line for line in lines[1:-2])
