"""Login with a key: what the browser gets, what it may do with it, and when it is over."""

import time
from http.cookies import Morsel, SimpleCookie

import httpx
import pytest
from fastapi import FastAPI

from sync_service.dashboard.access import COOKIE
from sync_service.dashboard.sessions import LIFE_S
from tests.integration.dashboard.conftest import Visitor
from tests.integration.sync.builder import Builder


def cookie_of(answer: httpx.Response) -> Morsel:
    return SimpleCookie(answer.headers["set-cookie"])[COOKIE]


async def test_who_has_not_logged_in_is_asked_to_and_comes_back(visitor: Visitor):
    answer = await visitor.get("/runs/r1/events")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/runs/r1/events")
    form = await visitor.get(answer.headers["location"])
    assert 'value="/runs/r1/events"' in form.text
    after = await visitor.post("/login", key=await visitor.key("viewer"), next="/runs/r1/events")
    assert (after.status_code, after.headers["location"]) == (303, "/runs/r1/events")


async def test_who_comes_back_has_the_filters_of_before(visitor: Visitor):
    long = await visitor.get(f"/runs/r1/events?text={'x' * 300}")
    assert long.headers["location"] == "/login?next=/runs/r1/events"
    path = "/runs/r1/events?kind=run-moved&text=a%26b"
    asked = await visitor.get(path)
    form = await visitor.get(asked.headers["location"])
    assert 'name="next" value="/runs/r1/events?kind=run-moved&amp;text=a%26b"' in form.text
    answer = await visitor.post("/login", key=await visitor.key("viewer"), next=path)
    assert answer.headers["location"] == path


async def test_the_cookie_is_no_key_and_is_for_this_service_alone(visitor: Visitor):
    key = await visitor.key("viewer")
    cookie = cookie_of(await visitor.post("/login", key=f" {key}\n"))
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert (cookie["max-age"], cookie["secure"]) == (str(LIFE_S), "")
    assert key.rpartition("_")[2] not in cookie.value
    assert (await visitor.get("/")).status_code == 200


async def test_over_https_the_cookie_is_secure(guarded: FastAPI):
    async with Visitor(guarded, "https://sync").http as http:
        visitor = Visitor(guarded, "https://sync")
        visitor.http = http
        assert cookie_of(await visitor.post("/login", key=await visitor.key("viewer")))["secure"] is True


@pytest.mark.parametrize(
    ("key", "status"),
    [("", 401), ("tandem_x", 401), (f"tandem_{'0' * 12}_{'0' * 64}", 401), ("a\0b", 422), ("x" * 5000, 413)],
)
async def test_a_wrong_key_opens_nothing(visitor: Visitor, key: str, status: int):
    answer = await visitor.post("/login", key=key)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers
    assert (await visitor.get("/")).status_code == 303


@pytest.mark.parametrize("role", ["planner", "executor", "metrics"])
async def test_pages_are_for_no_servers_key(visitor: Visitor, role):
    answer = await visitor.post("/login", key=await visitor.key(role))
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("origin", [None, "null", "http://elsewhere", "https://sync", "http://sync:81"])
async def test_a_form_of_another_site_is_refused(visitor: Visitor, origin: str | None):
    key = await visitor.key("operator")
    answer = await visitor.post("/login", origin=origin, key=key)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_a_session_opens_no_call_of_the_protocol(visitor: Visitor, build: Builder):
    await build.declare()
    await visitor.log_in("operator")
    assert (await visitor.get("/runs/r1")).status_code == 200
    assert (await visitor.get("/v1/runs/r1")).status_code == 401
    assert (await visitor.post("/v1/runs/r1:pause")).status_code == 401


@pytest.mark.parametrize("part", range(4))
async def test_a_cookie_that_was_changed_is_none(visitor: Visitor, part: int):
    await visitor.log_in()
    parts = visitor.http.cookies[COOKIE].split(".")
    parts[part] = str(int(parts[1]) + 1) if part == 1 else parts[part][:-1] + ("0" if parts[part][-1] != "0" else "1")
    visitor.http.cookies.clear()
    visitor.http.cookies.set(COOKIE, ".".join(parts))
    assert (await visitor.get("/")).status_code == 303


async def test_a_session_is_over_after_its_life(visitor: Visitor, monkeypatch: pytest.MonkeyPatch):
    await visitor.log_in()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LIFE_S + 1)
    assert (await visitor.get("/")).status_code == 303


async def test_a_session_is_over_when_its_key_is_revoked(visitor: Visitor, build: Builder):
    key = await visitor.log_in()
    await build.sql("UPDATE keys SET revoked_at = now() WHERE key = :key", key=key.split("_")[1])
    await visitor.app.state.browser_ring.refresh()
    assert (await visitor.get("/")).status_code == 303


async def test_logout_forgets_the_session(visitor: Visitor):
    await visitor.log_in()
    assert (await visitor.post("/logout")).headers["location"] == "/login"
    assert (await visitor.get("/")).status_code == 303


@pytest.mark.parametrize("place", ["//evil", "https://evil", "/\\evil", "", "/a\nb"])
async def test_after_the_login_one_stays_here(visitor: Visitor, place: str):
    answer = await visitor.post("/login", key=await visitor.key("viewer"), next=place)
    assert answer.headers["location"] == "/"


async def test_without_keys_there_is_no_login(build: Builder):
    await build.declare()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=build.app), base_url="http://localhost") as http:
        assert (await http.get("/login")).headers["location"] == "/"
        assert 'action="/runs/r1/drain"' in (await http.get("/runs/r1")).text
        assert (await http.get("/", headers={"sec-fetch-site": "cross-site"})).status_code == 401
        assert (await http.post("/runs/r1/pause")).status_code == 403
