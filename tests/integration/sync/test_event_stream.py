"""Events as a stream: from where the reader was, bounded in number and time, ended with the service."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from sync_service.config import SyncConfig
from sync_service.routes import events, sse
from sync_service.routes.sse import EventStream
from tests.integration.sync.builder import Builder
from tests.listening import listening
from tests.waiting import until

STREAM = {"accept": "text/event-stream"}


@pytest.fixture
def sync_config(sync_config: SyncConfig) -> SyncConfig:
    """Two streams a key."""
    return sync_config.model_copy(update={"event_streams_per_key": 2})


@pytest.fixture
async def http(sync_app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the service, over a socket."""
    async with listening(sync_app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield client


@asynccontextmanager
async def stream(http: httpx.AsyncClient, query: str = "", **headers: str) -> AsyncGenerator[AsyncIterator[str]]:
    """The lines of an open stream."""
    async with http.stream("GET", f"/v1/events?{query}", headers=STREAM | headers) as response:
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield response.aiter_lines()


async def ids(lines: AsyncIterator[str], count: int) -> list[int]:
    """The ids of the next events."""
    found: list[int] = []
    while len(found) < count:
        line = await anext(lines)
        if line.startswith("id: "):
            found.append(int(line.removeprefix("id: ")))
    return found


async def test_it_brings_what_was_and_what_comes_and_goes_on_where_it_was(
    build: Builder, http: httpx.AsyncClient
) -> None:
    await build.declare()
    async with stream(http) as lines:
        (first,) = await ids(lines, 1)
        assert (await anext(lines)) == "event: run-moved"
        assert (await anext(lines)).startswith('data: {"position":')
        await build.open()
        (second,) = await ids(lines, 1)
    await build.client.drain(build.run)
    async with stream(http, **{"last-event-id": str(second)}) as lines:
        (third,) = await ids(lines, 1)
    assert first < second < third
    async with stream(http, f"after={first}") as lines:
        assert await ids(lines, 2) == [second, third]


async def test_a_reader_of_one_run_hears_of_that_run_only(build: Builder, http: httpx.AsyncClient) -> None:
    async with stream(http, "run=r2") as lines:
        await build.declare()
        await build.client.declare_run("r2", build.spec)
        await ids(lines, 1)
        await anext(lines)
        assert '"run":"r2"' in await anext(lines)


@pytest.mark.parametrize("last", ["-1", "x", "1e3", "9" * 19])
async def test_a_last_event_id_that_is_no_position_is_refused(http: httpx.AsyncClient, last: str) -> None:
    response = await http.get("/v1/events", headers=STREAM | {"last-event-id": last})
    assert response.status_code == 422


async def test_a_silent_stream_is_kept_alive(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEPALIVE_S", 0.02)
    async with stream(http) as lines:
        assert [await anext(lines) for _ in range(3)] == [": still here", "", ": still here"]


async def test_a_key_has_so_many_streams_and_no_more(build: Builder, http: httpx.AsyncClient) -> None:
    feed = build.app.state.service.feed
    async with stream(http), stream(http):
        for headers in (STREAM, {}):
            response = await http.get("/v1/events?wait=1", headers=headers)
            assert (response.status_code, response.headers["retry-after"]) == (429, "1")
            assert response.json()["type"] == "urn:tandem:overloaded"
    await build.declare()  # what a stream sends shows that its reader has gone
    await until(lambda: not feed._open)
    async with stream(http) as lines:
        await ids(lines, 1)


async def test_a_stream_ends_by_itself_so_that_its_key_is_looked_at_again(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STREAM_S", 0.0)
    async with stream(http) as lines:
        assert [line async for line in lines] == []


async def test_the_stop_of_the_service_ends_every_stream(sync_app: FastAPI, http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60), stream(http) as lines:
        sync_app.state.on_stop()
        assert [line async for line in lines] == []
    await until(lambda: not sync_app.state.service.feed._open)


async def test_a_reader_that_takes_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SEND_S", 0.05)
    ended, sent = [], []

    async def frames() -> AsyncIterator[bytes]:
        while True:
            yield b"data: {}\n\n"

    async def send(message) -> None:
        sent.append(message["type"])
        if len(sent) == 3:
            await asyncio.Event().wait()

    async def receive():
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await EventStream(frames(), lambda: ended.append(True))({"type": "http"}, receive, send)
    assert (len(sent), ended) == (3, [True])
