"""The planner's and the executor's servers, route by route and key by key. They are not started: 503 is let in."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

import executor_server.app
import planner_server.app
from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from shared.config import parse, save
from shared.errors import UserError
from shared.http import key_file
from shared.http.key_file import line_of
from shared.ids import new_id
from tests.integration.access.matrix import EXECUTOR, PLANNER, RUN, Caller, Keyring, ask, routes, tries

BODIES: dict[str, dict[str, Any]] = {
    "PUT /v1/evaluations/{evaluation}": {"split": "test", "n": 1},
    "PUT /v1/invocations/{invocation}": {"run": RUN, "rollout": new_id(), "index": 0, "subtask": "s", "task_id": "t"},
}
SERVERS: dict[str, tuple[dict[str, str], type, Callable[[Any], FastAPI]]] = {
    "planner": (PLANNER, PlannerConfig, planner_server.app.create_app),
    "executor": (EXECUTOR, ExecutorConfig, executor_server.app.create_app),
}


def settings(name: str, **changes: Any) -> dict[str, Any]:
    """A server's tables, with `changes`."""
    base = {"run": RUN, "worker": "w", "sync_url": "http://sync", "folder": "runs", "environment": "atlas"}
    others = {"executor_url": "http://executor"} if name == "planner" else {}
    return {**base, **others, "policy": {"model": "model"}, **changes}


@pytest.fixture(params=SERVERS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def keyring() -> Keyring:
    """Fresh keys."""
    return Keyring()


@pytest.fixture
def hashes(keyring: Keyring, tmp_path: Path) -> Path:
    """The file of the live ones."""
    file = tmp_path / "keys"
    file.write_text("# live\n\n" + "".join(f"{line_of(key)}  # a comment\n" for key in keyring.live))
    return file


@pytest.fixture
def app(name: str, hashes: Path) -> FastAPI:
    """The server that reads this file."""
    _, config, create_app = SERVERS[name]
    return create_app(parse(config, settings(name, keys_file=hashes)))


@asynccontextmanager
async def client(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as http:
        yield http


def test_every_route_is_in_the_matrix(name: str, app: FastAPI):
    assert routes(app) == set(SERVERS[name][0])


async def test_the_whole_matrix(name: str, app: FastAPI, keyring: Keyring):
    wrong = []
    async with client(app) as http:
        for call, caller, refusal in tries(SERVERS[name][0], keyring, of_all=()):
            status = (await ask(http, call, caller, {}, BODIES.get(call))).status_code
            if status != refusal and (refusal or status not in (200, 503)):
                wrong.append((call, caller.name, status, refusal))
    assert wrong == []


async def test_the_file_is_read_again_when_it_changes(
    app: FastAPI, keyring: Keyring, hashes: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key_file, "LOOK_S", 0.0)
    app.state.guard._ring._look_at = 0.0
    lines = {key.role: line_of(key) for key in keyring.live if key.run is None}
    viewer = Caller("viewer", keyring.key("viewer"), "viewer")
    async with client(app) as http:

        async def status() -> int:
            return (await ask(http, "GET /v1/checkpoints", viewer, {}, None)).status_code

        assert await status() == 503
        change(hashes, lines["operator"])
        assert await status() == 401
        change(hashes, "nonsense")
        assert await status() == 401
        change(hashes, lines["viewer"])
        assert await status() == 503
        change(hashes, None)
        assert await status() == 503


def change(file: Path, text: str | None) -> None:
    """Write the file anew, or remove it."""
    file.unlink()
    if text is not None:
        file.write_text(text)


async def test_loopback_lets_everyone_in_but_no_proxy_and_no_other_site(name: str):
    table, config, create_app = SERVERS[name]
    app = create_app(parse(config, settings(name, auth="loopback")))
    async with client(app) as http:
        for call in table:
            assert (await ask(http, call, Caller("nobody", None), {}, BODIES.get(call))).status_code in (200, 503)
        for header, value in (
            ("X-Forwarded-For", "1.1.1.1"),
            ("Forwarded", "for=1.1.1.1"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Host", "rebound.example:8701"),
        ):
            assert (await http.get("/v1/checkpoints", headers={header: value})).status_code == 401
        for host in ("localhost:8701", "127.0.0.1:8701", "[::1]:8701"):
            assert (await http.get("/v1/checkpoints", headers={"Host": host})).status_code in (200, 503)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "needs keys_file"),
        ({"auth": "loopback", "keys_file": "keys"}, "has no use"),
        ({"auth": "loopback", "host": "0.0.0.0"}, "without keys only this machine may call"),
        ({"auth": "loopback", "host": "10.1.2.3"}, "without keys only this machine may call"),
        ({"auth": "off"}, "auth"),
        ({"keys_file": "keys", "sync_key": "tandem_x"}, "sync_key: unknown key"),
    ],
)
def test_no_server_is_open_by_mistake(name: str, changes: dict[str, Any], said: str):
    with pytest.raises(UserError, match=said):
        parse(SERVERS[name][1], settings(name, **changes))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_these_are_this_machine(name: str, host: str):
    assert parse(SERVERS[name][1], settings(name, auth="loopback", host=host))


@pytest.mark.parametrize(
    "line", ["a b", "0 boss * 00", "0 viewer * zz", f"0 viewer * {'0' * 62}", f"0 viewer x/y {'0' * 64}", "\0"]
)
def test_a_wrong_file_is_named_at_the_start(name: str, tmp_path: Path, line: str):
    file = tmp_path / "keys"
    file.write_text(f"\n{line}\n")
    with pytest.raises(UserError, match="keys:2"):
        SERVERS[name][2](parse(SERVERS[name][1], settings(name, keys_file=file)))
    with pytest.raises(UserError, match="cannot be read"):
        SERVERS[name][2](parse(SERVERS[name][1], settings(name, keys_file=tmp_path)))


def test_the_saved_configuration_holds_no_secret(name: str, hashes: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TANDEM_SYNC_KEY", "tandem_secret")
    save(parse(SERVERS[name][1], settings(name, keys_file=str(hashes))), tmp_path / "config.toml")
    assert "tandem_secret" not in (tmp_path / "config.toml").read_text()
