"""Admission: places, a bounded queue, 429 beyond it, and a body that must arrive; with a bare app behind it."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request

from shared.http import admission
from shared.http.admission import AdmissionConfig, one_lane
from shared.http.guard import OPEN, Guard, guarded
from shared.http.health import install_health
from shared.http.problems import install_problems
from tests.waiting import until


class Work:
    """An app whose calls end when the test says so."""

    def __init__(self, config: AdmissionConfig) -> None:
        self.app = FastAPI(openapi_url=None)
        self.begun = 0
        self.go_on = asyncio.Event()

        @self.app.post("/work", dependencies=[OPEN])
        async def work(request: Request) -> dict:
            await request.body()
            self.begun += 1
            await self.go_on.wait()
            return {}

        install_problems(self.app)
        install_health(self.app, {})
        one_lane(self.app, config)
        guarded(self.app, Guard(None))
        (self.lane,) = self.app.state.lanes

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://x")


async def test_some_work_some_wait_and_the_next_is_asked_to_come_back():
    work = Work(AdmissionConfig(in_work=2, waiting=2))
    async with work.client() as http:
        busy = [asyncio.create_task(http.post("/work")) for _ in range(4)]
        await until(lambda: (work.begun, work.lane.waiting) == (2, 2))
        refused = await http.post("/work")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["type"] == "urn:tandem:overloaded"
        assert (await http.get("/healthz")).status_code == 200
        work.go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*busy)] == [200] * 4
        assert (await http.post("/work")).status_code == 200
    assert work.lane.refused == 1


async def test_the_wait_for_a_place_is_bounded():
    work = Work(AdmissionConfig(in_work=1, waiting=1, wait_s=0.01))
    async with work.client() as http:
        busy = asyncio.create_task(http.post("/work"))
        await until(lambda: work.begun == 1)
        assert (await http.post("/work")).status_code == 429
        work.go_on.set()
        assert (await busy).status_code == 200
    assert work.lane.waiting == 0


async def test_a_caller_that_goes_away_leaves_its_place():
    work = Work(AdmissionConfig(in_work=1, waiting=1))
    async with work.client() as http:
        working = asyncio.create_task(http.post("/work"))
        await until(lambda: work.begun == 1)
        waiting = asyncio.create_task(http.post("/work"))
        await until(lambda: work.lane.waiting == 1)
        for gone in (waiting, working):
            gone.cancel()
            await asyncio.wait([gone])
        work.go_on.set()
        assert (await http.post("/work")).status_code == 200


async def test_a_body_that_does_not_arrive_gives_its_place_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admission, "BODY_S", 0.01)
    work = Work(AdmissionConfig(in_work=1))

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with work.client() as http:
        answer = await http.post("/work", content=endless())
        assert answer.status_code == 503
        assert "did not arrive" in answer.json()["detail"]
        work.go_on.set()
        assert (await http.post("/work", content=b"{}")).status_code == 200
