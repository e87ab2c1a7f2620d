"""Bad input: each kind a clear 4xx as problem+json that names the field, never a 500, and nothing is stored."""

import json
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.types import Message

from shared.ids import new_id
from tests.integration.sync.builder import Builder


@pytest.fixture
async def http(build: Builder) -> AsyncGenerator[httpx.AsyncClient]:
    """A bare client: what a caller without our client may send."""
    await build.declare()
    transport = httpx.ASGITransport(app=build.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sync") as client:
        yield client


def refused(response: httpx.Response, status: int, *words: str) -> None:
    """The answer is a problem with this status, whose detail holds `words`."""
    assert response.status_code == status, (str(response.request.url)[:200], response.text)
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:tandem:")
    assert isinstance(problem["retryable"], bool)
    for word in words:
        assert word in problem["detail"]


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "true", '"0.5"', "1.5", "-0.1", "[]", "{}"]
TEXTS = ['"\\u0000"', '"\\ud800"', "7", '""', '"x y"', '"a\\nb"']


async def test_a_reward_is_a_finite_number_within_its_bounds(build: Builder, http: httpx.AsyncClient) -> None:
    group = await build.open()
    for number in NUMBERS:
        rollout = build.rollout(group, r_correct=0.123).body.model_dump_json().replace("0.123", number)
        refused(await http.put(f"/v1/rollouts/{new_id()}", content=rollout), 422, "r_correct")
        score = build.score(new_id(), r_expert=0.123).body.model_dump_json().replace("0.123", number)
        refused(await http.put(f"/v1/trajectories/{new_id()}", content=score), 422, "r_expert")
    status = await build.client.status(build.run)
    assert (status.rollouts, status.trajectories) == ({}, {})


async def test_a_code_is_a_code_and_text_is_text(build: Builder, http: httpx.AsyncClient) -> None:
    group = await build.open()
    for text in TEXTS:
        rollout = build.aborted(group, reason="the-reason").body.model_dump_json().replace('"the-reason"', text)
        refused(await http.put(f"/v1/rollouts/{new_id()}", content=rollout), 422)
    for text in ('"\\u0000"', '"\\ud800"', "7"):
        opened = f'{{"run": "{build.run}", "step": 1, "index": 0, "task_id": {text}}}'
        refused(await http.put(f"/v1/groups/{new_id()}", content=opened), 422)
        beat = f'{{"role": "planner", "url": {text}}}'
        refused(await http.put(f"/v1/runs/{build.run}/workers/w", content=beat), 422)
    refused(await http.put(f"/v1/groups/{new_id()}", content=json.dumps({"run": "\0", "step": 1})), 422)


FAULTS: list[tuple[dict, str]] = [
    ({"surprise": 1}, "surprise"),
    ({"slot": 10**30}, "slot"),
    ({"slot": -1}, "slot"),
    ({"slot": 1.0}, "slot"),
    ({"slot": True}, "slot"),
    ({"r_format": 2}, "r_format"),
    ({"r_format": 0.5}, "r_format"),
    ({"group": "not-an-id"}, "group"),
    ({"group": None}, "group"),
    ({"executor_trajectories": ["x"]}, "executor_trajectories"),
    ({"executor_trajectories": [new_id()] * 2}, "twice"),
    ({"executor_trajectories": [new_id() for _ in range(1025)]}, "executor_trajectories"),
    ({"tokens": 2**31}, "tokens"),
    ({"version": {"epoch": 1, "step": 1}}, "version.updates"),
    ({"planner_trajectory": None}, "planner_trajectory"),
    ({"reason": "why"}, "reason"),
]


async def test_a_fault_is_named_by_its_field(build: Builder, http: httpx.AsyncClient) -> None:
    group = await build.open()
    for change, word in FAULTS:
        body = json.loads(build.rollout(group).body.model_dump_json()) | change
        refused(await http.put(f"/v1/rollouts/{new_id()}", content=json.dumps(body)), 422, word)


NO_OBJECTS = [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"run": "r1"']


async def test_a_body_that_is_no_object_is_refused_everywhere(build: Builder, http: httpx.AsyncClient) -> None:
    id, run = new_id(), build.run
    puts = [f"/v1/runs/{run}", *[f"/v1/{noun}/{id}" for noun in ("groups", "rollouts", "trajectories")]]
    puts += [f"/v1/runs/{run}/policies/planner/1.1", f"/v1/runs/{run}/workers/w"]
    verbs = ("resume", "lease", "renew", "ack", "release")
    posts = [f"/v1/{noun}:batch" for noun in ("groups", "rollouts", "trajectories")]
    posts += [f"/v1/runs/{run}/streams/planner:{v}" for v in verbs]
    for raw in NO_OBJECTS:
        for path in puts:
            refused(await http.put(path, content=raw), 422)
        for path in posts:
            refused(await http.post(path, content=raw), 422)


async def test_a_body_that_is_too_large_is_refused_before_it_is_parsed(build: Builder, http) -> None:
    raw = b'{"items": [' + b" " * 5_000_000
    for call, path in ((http.put, f"/v1/rollouts/{new_id()}"), (http.post, "/v1/trajectories:batch")):
        refused(await call(path, content=raw), 413)


def only(item: dict) -> dict:
    """A request of one item."""
    return {"items": [item]}


NO_ITEMS: list[dict] = [
    {"items": []},
    {"items": {}},
    {"items": [], "more": 1},
    {},
    only({}),
    only({"id": "x", "body": {}}),
    only({"id": 7, "body": {}}),
    {"items": [{"id": new_id(), "body": {}}] * 513},
]


async def test_a_request_of_items_needs_items_with_ids(http: httpx.AsyncClient) -> None:
    for body in NO_ITEMS:
        for noun in ("rollouts", "trajectories"):
            refused(await http.post(f"/v1/{noun}:batch", content=json.dumps(body)), 422)


@pytest.mark.parametrize("spoil", ["NaN", "1e400", "true", '"0.5"', '"\\u0000"', '"\\ud800"'])
async def test_a_malformed_item_does_not_spoil_the_others(build: Builder, http: httpx.AsyncClient, spoil: str) -> None:
    group = await build.open()
    rollouts = [build.rollout(group, slot, r_correct=0.25 + slot / 2) for slot in (0, 1)]
    await spoiled(http, "rollouts", rollouts, spoil)
    await spoiled(http, "trajectories", [build.score(new_id(), r_expert=0.25 + n / 2) for n in (0, 1)], spoil)


async def spoiled(http: httpx.AsyncClient, noun: str, items: list, spoil: str) -> None:
    """Submit two items, the first one with `spoil` for its number."""
    raw = json.dumps({"items": [json.loads(item.model_dump_json()) for item in items]}).replace("0.25", spoil)
    response = await http.post(f"/v1/{noun}:batch", content=raw)
    assert response.status_code == 200, response.text
    bad, good = response.json()["items"]
    assert (bad["id"], bad["status"], good["id"], good["status"]) == (items[0].id, 422, items[1].id, 200)
    assert bad["problem"]["type"] == "urn:tandem:invalid-input"


ACK: dict = {"epoch": 1, "step": 1, "outcome": "trained", "updates": 1, "fates": {}}


ACK_FAULTS: list[dict] = [
    {"fates": {new_id(): 0}},
    {"fates": {new_id(): True}},
    {"fates": {new_id(): 1.5}},
    {"fates": {new_id(): "Not A Code"}},
    {"fates": {"x": 1}},
    {"statistics": {"a": float("nan")}},
    {"statistics": {"a\0": 1.0}},
    {"statistics": {"a sentence of words": 1.0}},
    {"statistics": {"a": "1"}},
    {"histograms": {"h": {"1": 1.5}}},
    {"histograms": {"h": {"\0": 1}}},
    {"step": 0},
    {"outcome": "lost"},
    {"epoch": 2**31},
]


async def test_an_ack_is_strict(build: Builder, http: httpx.AsyncClient) -> None:
    for change in ACK_FAULTS:
        raw = json.dumps(ACK | change)
        refused(await http.post(f"/v1/runs/{build.run}/streams/planner:ack", content=raw), 422)


RUN_FAULTS: list[dict] = [
    {"steps": 0},
    {"steps": 10**7},
    {"rollouts_per_group": 1},
    {"min_rollouts": 9},
    {"trained_roles": []},
    {"trained_roles": ["planner", "planner"]},
    {"trained_roles": ["judge"]},
    {"cutter": "arrival"},
    {"lease_ttl_s": 0},
    {"rollout_deadline_s": 1e300},
    {"planner_reward": {"format": 0.5, "correct": 0.6}},
    {"planner_reward": {"diversity": 0.1}},
    {"planner_reward": {"correct": 0.4, "protocol": 0.5}},
    {"planner_reward": {"correct": 0.0, "efficiency": 0.9, "budget": {"calls": 8}}},
    {"planner_reward": {"correct": 0.8, "efficiency": 0.1}},
    {"planner_reward": {"correct": 0.8, "efficiency": 0.1, "budget": {}}},
    {"planner_reward": {"correct": 0.8, "efficiency": 0.1, "budget": {"calls": 0}}},
    {"planner_reward": {"budget": {"calls": 8}}},
    {"surprise": 1},
]


async def test_a_run_is_declared_whole_or_not_at_all(http: httpx.AsyncClient) -> None:
    for change in RUN_FAULTS:
        refused(await http.put("/v1/runs/r9", content=json.dumps({"steps": 3} | change)), 422)
        refused(await http.get("/v1/runs/r9"), 404)


PATHS: list[tuple[str, str, int]] = [
    ("GET", "/v1/runs/a%00b", 422),
    ("GET", "/v1/runs/a b", 422),
    ("GET", "/v1/groups/7", 422),
    ("GET", f"/v1/groups/{new_id()}", 404),
    ("GET", f"/v1/rollouts/{new_id()}", 404),
    ("GET", f"/v1/trajectories/{new_id()}", 404),
    ("GET", "/v1/runs/none/groups", 404),
    ("GET", "/v1/runs/none/deliveries", 404),
    ("GET", "/v1/runs/none/policies", 404),
    ("GET", "/v1/runs/none/workers", 404),
    ("GET", "/v1/runs/r1/groups?state=lost", 422),
    ("GET", "/v1/runs/r1/groups?limit=0", 422),
    ("GET", "/v1/runs/r1/status?wait=nan", 422),
    ("GET", "/v1/runs/r1/status?wait=61", 422),
    ("GET", "/v1/runs/r1/status?open_step=0", 422),
    ("GET", "/v1/runs/r1/steps?after=99999999999999999999", 422),
    ("POST", "/v1/runs/r1:fail?reason=Because%20I%20say%20so", 422),
    ("POST", "/v1/runs/none:drain", 404),
    ("POST", "/v1/runs/r1/streams/judge:lease", 422),
    ("PUT", "/v1/runs/r1/policies/planner/1.x", 422),
    ("PUT", "/v1/runs/r1/policies/planner/1.99999999999", 422),
    ("GET", "/v1/runs?cursor=WyJcdWQ4MDAiXQ", 422),  # ["\ud800"]
    ("GET", "/v1/runs?cursor=MQ", 422),  # 1
    ("GET", "/v1/nothing", 404),
    ("DELETE", "/v1/runs/r1", 405),
]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
async def test_a_body_is_utf_8_alone_and_of_many(build: Builder, http: httpx.AsyncClient, encoding: str) -> None:
    score = build.score(new_id())
    alone, many = score.body.model_dump_json(), f'{{"items": [{score.model_dump_json()}]}}'
    refused(await http.put(f"/v1/trajectories/{score.id}", content=alone.encode(encoding)), 422)
    refused(await http.post("/v1/trajectories:batch", content=many.encode(encoding)), 422)


async def test_a_caller_who_goes_within_its_body_is_no_fault_of_the_service(build: Builder) -> None:
    went: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        went.append(message)

    scope = {"type": "http", "method": "PUT", "path": f"/v1/rollouts/{new_id()}", "headers": [], "query_string": b""}
    await build.app(scope, receive, send)
    assert went[0]["status"] == 422


async def test_a_path_or_query_that_means_nothing_is_a_problem(http: httpx.AsyncClient) -> None:
    for method, path, status in PATHS:
        refused(await http.request(method, path, content="{}" if method != "GET" else None), status)
