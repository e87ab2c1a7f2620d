"""A worker of a run: it waits for the declaration, says what it does, and refuses a run that it cannot serve."""

import asyncio
import json

import httpx
import pytest
from fastapi import FastAPI

from shared.client import SyncClient
from shared.errors import NotFound, UserError
from shared.http.problems import install_problems
from shared.schemas import PolicyVersion
from shared.schemas.run import RunSpec, RunView
from shared.schemas.stream import Heartbeat
from shared.serving import member as module
from shared.serving.member import Member
from tests.waiting import until

SPEC = RunSpec(steps=3, trained_roles=("executor",))


def member(client: SyncClient, role: str = "planner") -> Member:
    return Member(client, "r", "w-1", role, "http://here")  # ty: ignore[invalid-argument-type]


async def test_it_waits_until_the_run_is_declared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "POLL_S", 0.0)
    answers = [httpx.Response(404, json=NotFound().problem())] * 3
    answers.append(httpx.Response(200, content=RunView(run="r", spec=SPEC, state="declared").model_dump_json()))
    transport = httpx.MockTransport(lambda _: answers.pop(0))
    async with SyncClient("http://sync", transport=transport) as client:
        one = member(client)
        assert await one.declared() == SPEC
    assert one.doing == {}


async def test_a_sync_url_of_another_of_our_servers_is_told_and_not_waited_for():
    other = FastAPI()
    install_problems(other)
    async with SyncClient("http://executor", transport=httpx.ASGITransport(other)) as client:
        with pytest.raises(UserError, match="sync_url names another of our servers"):
            await asyncio.wait_for(member(client).declared(), 60)


async def test_a_heartbeat_says_what_it_does_and_the_last_one_that_the_server_drains():
    beats = []

    def receive(request: httpx.Request) -> httpx.Response:
        beats.append((request.url.path, Heartbeat.model_validate(json.loads(request.content), strict=False)))
        return httpx.Response(204)

    async with SyncClient("http://sync", transport=httpx.MockTransport(receive)) as client:
        one = member(client)
        one.doing = {"rollouts": "of step 2", "trainer": "waiting for the batch of step 1"}
        one.version = lambda: PolicyVersion(epoch=1, step=0, updates=0)
        loop = asyncio.create_task(one.heartbeats())
        await until(lambda: beats)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
    (path, beat), (_, last) = beats
    assert path == "/v1/runs/r/workers/w-1"
    assert beat.doing == "rollouts: of step 2; trainer: waiting for the batch of step 1"
    assert (beat.role, beat.url, beat.version) == ("planner", "http://here", PolicyVersion(epoch=1, step=0, updates=0))
    assert (beat.draining, last.draining) == (False, True)


async def test_a_stop_is_not_held_up_by_a_last_heartbeat_that_nobody_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LAST_S", 0.0)
    asked = asyncio.Event()

    async def hang(request: httpx.Request) -> httpx.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with SyncClient("http://sync", transport=httpx.MockTransport(hang)) as client:
        loop = asyncio.create_task(member(client).heartbeats())
        await asked.wait()
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop


async def test_a_role_trains_where_the_run_says_so_and_it_has_a_trainer():
    async with SyncClient("http://sync", transport=httpx.MockTransport(lambda _: httpx.Response(500))) as client:
        planner, executor = member(client), member(client, "executor")
        assert not planner.trains(SPEC, has_trainer=True)
        assert planner.doing["trainer"] == "this role does not train in this run"
        assert executor.trains(SPEC, has_trainer=True)
        with pytest.raises(UserError, match="trains the executor, but this server was configured with trains=false"):
            executor.trains(SPEC, has_trainer=False)
