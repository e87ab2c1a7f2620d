"""Every place of every call of the three services, filled with what no client of ours sends.

Whatever it is: no 5xx but the 503 of a server that is not started, a problem for each refusal, and no value repeated.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from shared.client import SyncClient
from shared.http.body import MAX_VALUES
from shared.http.openapi import document
from tests.integration.access.matrix import RUN, Caller, ask
from tests.integration.access.test_server_access import BODIES, SERVERS, parse, settings
from tests.integration.access.things import Bodies, things
from tests.integration.sync.builder import Builder

MARK = "s3cret-of-the-caller"
NO_TEXT = ['"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udfff\\ud800"']
"""What is refused wherever text is taken."""
FRAGMENTS = [
    *NO_TEXT,
    *("NaN", "-Infinity", "1e400", "true", "null", "-1", "1.5", str(2**63), "1" + "0" * 400, '""', "[]", "{}"),
    *(json.dumps(MARK), json.dumps([MARK]), json.dumps({"x": MARK}), json.dumps("x" * 200_000)),
    "[" * 300 + "]" * 300,
    '{"a":' * 300 + "1" + "}" * 300,
]
ESCAPES = [
    "%00",
    "a%00b",
    "%ff",
    "%ed%a0%80",
    "%c0%80",
    quote(MARK),
    quote("../../etc"),
    "%2e%2e%2f",
    "9" * 400,
    "nan",
    "-1",
]
NO_UTF8 = ESCAPES[:5]
PLACE = "PLACE-7c1b"


@asynccontextmanager
async def calling(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        yield http


def leaves(body: Any) -> Iterator[list[Any]]:
    """The path to every value and to every object of a body."""
    yield []
    inside = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in inside:
        for path in leaves(value):
            yield [key, *path]


def spoiled(body: Any, path: list[Any], fragment: str) -> str:
    """The body as JSON, with `fragment` at `path`."""
    copy = json.loads(json.dumps({"": body}))
    node, last = copy, ""
    for key in path:
        node, last = node[last], key
    node[last] = PLACE
    return json.dumps(copy[""]).replace(f'"{PLACE}"', fragment)


def fault(answer: httpx.Response, refusals: tuple[int, ...] = (), *, up: bool = True) -> str | None:
    """What is wrong with an answer."""
    if answer.status_code >= 500 and (up or answer.status_code != 503):
        return f"{answer.status_code}: {answer.text}"
    if refusals and answer.status_code not in refusals:
        return f"{answer.status_code} is none of {refusals}"
    if answer.is_success:
        return None
    if answer.headers["content-type"] != "application/problem+json" or answer.json()["status"] != answer.status_code:
        return f"no problem: {answer.text}"
    repeated = answer.status_code == 422 and MARK in answer.json()["detail"]
    return f"it repeats the value: {answer.text}" if repeated else None


async def spoil_bodies(http: httpx.AsyncClient, ids: dict[str, str], bodies: Bodies, *, up: bool) -> list[Any]:
    """Every fragment at every place of every body."""
    wrong = []
    for call, body in bodies.items():
        for path in leaves(body):
            for fragment in FRAGMENTS:
                answer = await ask(http, call, Caller("loopback", None), ids, spoiled(body, path, fragment))
                batch = call.endswith(":batch") and len(path) > 2  # then the item is refused alone
                said = fault(answer, (422,) if fragment in NO_TEXT and not batch else (), up=up)
                wrong += [(call, path, fragment[:40], said)] if said else []
    return wrong


async def spoil_targets(http: httpx.AsyncClient, app: FastAPI, *, up: bool) -> list[Any]:
    """Every escape at every place of every path and query."""
    wrong = []
    for path, methods in document(app)["paths"].items():
        for method, operation in methods.items():
            for place in operation.get("parameters", ()):
                for escape in ESCAPES if place["in"] != "header" else ():
                    answer = await http.request(method, target(path, place, escape), content=b"{}")
                    if said := fault(answer, (422,) if escape in NO_UTF8 else (), up=up):
                        wrong.append((method, path, place["name"], escape[:40], said))
    return wrong


def target(path: str, place: dict[str, Any], escape: str) -> str:
    """The path, or its query, with `escape` at `place`."""
    if place["in"] == "path":
        path = path.replace(f"{{{place['name']}}}", escape)
    filled = path.format_map(
        {"run": RUN, "role": "planner", "epoch": 1, "step": 1, "worker": "w", "name": "best"} | IDS
    )
    return f"{filled}?{place['name']}={escape}" if place["in"] == "query" else filled


IDS = dict.fromkeys(
    ("group", "rollout", "trajectory", "delivery", "evaluation", "invocation"), f"{0:08}-{0:04}-7000-8000-{0:012}"
)


async def test_the_sync_service_takes_everything(sync_app: FastAPI, sync_client: SyncClient):
    build = await Builder(sync_app, sync_client, RUN).declare(groups_per_step=1)
    ids, bodies = await things(build)
    async with calling(sync_app) as http:
        assert await spoil_bodies(http, ids, bodies, up=True) == []
        assert await spoil_targets(http, sync_app, up=True) == []
    assert (await sync_client.status(RUN)).rollouts == {"reported": 2}


@pytest.mark.parametrize("name", SERVERS)
async def test_the_role_servers_take_everything(name: str):
    _, config, create_app = SERVERS[name]
    app = create_app(parse(config, settings(name, auth="loopback")))
    async with calling(app) as http:
        own = {call: body for call, body in BODIES.items() if call in SERVERS[name][0]}
        assert await spoil_bodies(http, {}, own, up=False) == []
        assert await spoil_targets(http, app, up=False) == []


async def test_too_many_values_are_refused_before_they_are_parsed(sync_app: FastAPI):
    async with calling(sync_app) as http:
        for body in ("[" + "0," * MAX_VALUES + "0]", '{"items": [' + "{}," * MAX_VALUES + "{}]}"):
            answer = await http.post("/v1/rollouts:batch", content=body)
            assert (answer.status_code, answer.json()["type"]) == (413, "urn:tandem:body-too-large")


async def test_a_wrong_method_says_which_are_right(sync_app: FastAPI):
    async with calling(sync_app) as http:
        answer = await http.request("PATCH", "/v1/runs")
    assert (answer.status_code, answer.json()["type"], answer.headers["allow"]) == (
        405,
        "urn:tandem:method-not-allowed",
        "GET",
    )
