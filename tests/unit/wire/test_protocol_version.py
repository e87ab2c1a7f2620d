"""Versions of the protocol: named in each message, newer fields left out, and a mismatch that says whom to upgrade."""

import json
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI

from planner_server.executor import ExecutorClient
from shared.client import SyncClient
from shared.errors import ProtocolMismatch
from shared.http.protocol import install_protocol
from shared.ids import new_id
from shared.schemas import protocol
from shared.schemas.base import Wire
from shared.schemas.invocation import InvocationRequest
from shared.schemas.protocol import HEADER, PROTOCOL, Since, left_out
from shared.schemas.stream import Renewed, StreamClaim

CLAIM = StreamClaim(worker="w", epoch=1)


class Part(Wire):
    old: int = 0
    newer: Annotated[int, Since(2)] = 0


class Whole(Wire):
    part: Part | None = None
    parts: Annotated[tuple[Part, ...], "bounded"] = ()
    newest: Annotated[str | None, Since(3)] = None
    old: str = "a"


WHOLE = Whole(part=Part(newer=1), parts=(Part(newer=2), Part(old=3)), newest="x")


class Server:
    """Answers every call in one version, and keeps what it got."""

    def __init__(self, version: int | str | None) -> None:
        self._headers = {} if version is None else {HEADER: str(version)}
        self.got: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.got.append(request)
        return httpx.Response(200, json={"ttl_s": 1.0}, headers=self._headers)

    async def send(self, *bodies: Wire) -> list[dict]:
        async with SyncClient("http://sync", transport=httpx.MockTransport(self)) as sync:
            for body in bodies:
                await sync._call("POST", "/v1/some", body, Renewed)
        return [json.loads(request.content) for request in self.got if request.method == "POST"]


def test_what_is_newer_is_left_out_however_deep_it_lies():
    assert left_out(Whole, 3) is None
    assert left_out(Whole, 2) == {"newest": True}
    assert json.loads(WHOLE.model_dump_json(exclude=left_out(Whole, 1))) == {
        "part": {"old": 0},
        "parts": [{"old": 0}, {"old": 3}],
        "old": "a",
    }


async def test_a_server_of_an_older_version_gets_no_field_that_it_lacks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "PROTOCOL", 3)
    server = Server(2)
    first, second = await server.send(WHOLE, WHOLE)
    assert first == second == WHOLE.model_dump(mode="json", exclude={"newest"})
    assert [request.url.path for request in server.got] == ["/healthz", "/v1/some", "/v1/some"]


@pytest.mark.parametrize("version", [3, 4, None, "no number"])
async def test_a_server_that_knows_everything_gets_everything(version, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "PROTOCOL", 3)
    assert await Server(version).send(WHOLE) == [WHOLE.model_dump(mode="json")]


async def test_every_request_names_the_version_of_its_sender():
    server = Server(PROTOCOL)
    await server.send(CLAIM)
    assert [request.headers[HEADER] for request in server.got] == [str(PROTOCOL)]


async def test_a_server_that_is_too_old_is_to_be_upgraded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "PROTOCOL", 3)
    monkeypatch.setattr(protocol, "OLDEST_SERVER", 2)
    with pytest.raises(
        ProtocolMismatch, match=r"http://sync speaks protocol 1; this client speaks 3.*upgrade the server"
    ):
        await Server(1).send(CLAIM)


async def test_the_planner_finds_an_executor_that_is_too_old(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "OLDEST_SERVER", 1)
    server = Server(0)
    executor = ExecutorClient(httpx.MockTransport(server), "http://executor", deadline_s=5, attempts=1)
    request = InvocationRequest(run="r", rollout=new_id(), index=0, subtask="s", task_id="t")
    with pytest.raises(ProtocolMismatch, match="the executor at http://executor speaks protocol 0"):
        await executor.invoke(new_id(), request)
    assert server.got[0].headers[HEADER] == str(PROTOCOL)


@pytest.fixture
async def http(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "OLDEST_CLIENT", 2)
    app = FastAPI()
    app.get("/")(lambda: {})
    install_protocol(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        yield client


async def test_a_client_that_is_too_old_is_told_which_side_to_upgrade(http: httpx.AsyncClient):
    refused = await http.get("/", headers={HEADER: "1"})
    assert (refused.status_code, refused.headers[HEADER]) == (400, str(PROTOCOL))
    body = refused.json()
    assert body["type"] == "urn:tandem:protocol-mismatch"
    assert "speaks protocol 1" in body["detail"]
    assert "upgrade the client" in body["detail"]


@pytest.mark.parametrize("headers", [{}, {HEADER: "2"}, {HEADER: "9"}])
async def test_the_current_version_a_newer_one_and_none_at_all_are_answered(http: httpx.AsyncClient, headers: dict):
    answer = await http.get("/", headers=headers)
    assert (answer.status_code, answer.headers[HEADER]) == (200, str(PROTOCOL))


@pytest.mark.parametrize("value", ["", "one", "-1", "1.0", "9" * 40])
async def test_a_header_that_is_no_version_is_refused(http: httpx.AsyncClient, value: str):
    assert (await http.get("/", headers={HEADER: value})).status_code == 422
