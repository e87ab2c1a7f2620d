"""Every page: its headers, who sees it, and what an operator does on it."""

import pytest

from shared.ids import new_id
from sync_service.dashboard import texts
from sync_service.dashboard.pages import HEADERS
from tests.integration.access.matrix import PAGES
from tests.integration.dashboard.conftest import Visitor
from tests.integration.sync.builder import Builder

READ = [call.split()[1] for call in PAGES if call.startswith("GET") and "static" not in call and "live" not in call]
ACTIONS = {call.split()[1]: roles for call, roles in PAGES.items() if call.startswith("POST /runs")}
UNSAFE = ("<script>", "style=", " onclick", " onload", "javascript:", "http://", "https://")


def at(path: str, **ids: str) -> str:
    """The path with ids that nobody has, but for those given."""
    names = ("delivery", "group", "rollout", "trajectory")
    known = {name: new_id() for name in names} | {"run": "r1", "move": "pause", "action": "requeue", "step": "1"} | ids
    return path.format_map(known)


@pytest.mark.parametrize("path", [*READ, "/runs/nobody", "/runs/~", "/static/nothing.css"])
async def test_every_page_has_the_headers_and_nothing_inline(visitor: Visitor, build: Builder, path: str):
    await build.declare()
    await build.fill(1)
    await visitor.log_in("operator")
    answer = await visitor.get(at(path))
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["content-type"].startswith("text/html")
    assert [word for word in UNSAFE if word in answer.text] == []


@pytest.mark.parametrize("path", ["/", "/runs/r1", "/runs/r1/events"])
async def test_a_viewer_sees_no_action(visitor: Visitor, build: Builder, path: str):
    await build.declare()
    await build.open()
    await visitor.log_in()
    assert "/runs/r1/" not in "".join((await visitor.get(path)).text.split('method="post"')[2:])


@pytest.mark.parametrize("path", ACTIONS)
async def test_a_viewer_does_nothing(visitor: Visitor, build: Builder, path: str):
    await build.declare()
    await visitor.log_in()
    assert (await visitor.post(at(path))).status_code == 403
    assert await build.sql("SELECT * FROM audit WHERE action <> 'run-declare' AND action NOT LIKE 'key%'") == []


@pytest.mark.parametrize("path", ACTIONS)
async def test_a_form_of_another_site_does_nothing(visitor: Visitor, build: Builder, path: str):
    await build.declare()
    await visitor.log_in("operator")
    for origin in (None, "http://elsewhere"):
        assert (await visitor.post(at(path), origin=origin)).status_code == 403
    assert (await build.client.status("r1")).state == "declared"


async def test_an_operator_steers_a_run_and_the_audit_says_who(visitor: Visitor, build: Builder):
    await build.declare()
    await build.open()
    key = await visitor.log_in("operator")
    for move, state in (("pause", "paused"), ("resume", "running"), ("drain", "draining"), ("fail", "failed")):
        answer = await visitor.post(f"/runs/r1/{move}", **({"reason": "no-disk"} if move == "fail" else {}))
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs/r1")
        assert (await build.client.status("r1")).state == state
    rows = await build.sql("SELECT action, key, details FROM audit WHERE action LIKE 'run-%' ORDER BY id")
    assert [row.action for row in rows[1:]] == ["run-pause", "run-resume", "run-drain", "run-fail"]
    assert {row.key for row in rows[1:]} == {key.split("_")[1]}
    assert rows[-1].details == {"reason": "no-disk"}
    assert (await visitor.post("/runs/r1/pause")).status_code == 409
    assert (await visitor.post("/runs/r1/fail", reason="No code!")).status_code == 422


async def test_an_operator_requeues_skips_and_discards(visitor: Visitor, build: Builder):
    await build.declare(max_attempts=1)
    await build.fill(1)
    for role, action in (("planner", "requeue"), ("executor", "skip")):
        trainer = build.trainer(role)
        await trainer.resume()
        await trainer.delivery()
        await trainer.release("trainer-failed")
        delivery = (await build.sql("SELECT id FROM deliveries WHERE state = 'dead'"))[0].id
        await visitor.log_in("operator")
        assert delivery in (await visitor.get("/runs/r1")).text
        assert (await visitor.post(f"/runs/r1/deliveries/{delivery}/{action}")).status_code == 303
    states = await build.sql("SELECT role, state FROM deliveries WHERE step = 1 ORDER BY role")
    assert [row.state for row in states] == ["acked", "ready"]
    group = await build.open(2)
    assert (await visitor.post(f"/runs/r1/groups/{group}/discard")).status_code == 303
    assert (await build.group(group)).state == "discarded"


async def test_a_key_of_one_run_sees_and_does_nothing_in_another(visitor: Visitor, build: Builder):
    other = await Builder(build.app, build.client, "r2").declare()
    group = await other.open()
    await build.declare()
    await visitor.log_in("operator", "r1")
    listed = (await visitor.get("/")).text
    assert "/runs/r1" in listed
    assert "r2" not in listed
    for path in ("/runs/r2", "/runs/r2/events", "/runs/r2/live"):
        assert (await visitor.get(path)).status_code == 403
    assert (await visitor.post("/runs/r2/pause")).status_code == 403
    assert (await visitor.post(f"/runs/r1/groups/{group}/discard")).status_code == 403
    assert (await other.group(group)).state == "open"


async def test_events_are_filtered_and_paged(visitor: Visitor, build: Builder):
    await build.declare(steps=40, staleness=39, groups_per_step=1)
    for step in range(1, 31):
        await build.fill(step)
    await visitor.log_in()
    first = (await visitor.get("/runs/r1/events")).text
    assert first.count("<tr>") == 51
    older = first.partition("before=")[2].partition('"')[0]
    assert (await visitor.get(f"/runs/r1/events?before={older}")).text.count("<tr>") > 1
    cut = (await visitor.get("/runs/r1/events?kind=batch-cut")).text
    assert cut.count("kind-batch-cut") == 30
    assert "kind-group-closed" not in cut
    ready = (await visitor.get("/runs/r1/events?kind=delivery-ready&role=executor&text=%22STEP%22:%2030")).text
    assert ready.count("kind-delivery-ready") == 1
    assert "No event fits" in (await visitor.get("/runs/r1/events?text=%25")).text
    assert (await visitor.get("/runs/r1/events?kind=nothing")).status_code == 422


async def test_no_answer_of_a_page_is_kept_but_files_are(visitor: Visitor, build: Builder):
    await build.declare()
    await visitor.log_in()
    answer = await visitor.get("/runs/r1")
    assert answer.headers["cache-control"] == "no-store"
    path = answer.text.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert "immutable" in (await visitor.get(path)).headers["cache-control"]
    assert (await visitor.get(path.partition("?")[0])).headers["cache-control"] == "no-cache"
    for secret in ("vendor/htmx.LICENSE", "../sessions.py", "..%2fsessions.py", "vendor/README.md"):
        assert (await visitor.get(f"/static/{secret}")).status_code == 404


async def test_a_run_that_is_purged_while_it_is_read_is_not_there(visitor: Visitor, build: Builder):
    await build.declare()
    await visitor.log_in()
    await build.sql("DELETE FROM streams")
    assert (await visitor.get("/runs/r1")).status_code == 404


def test_a_time_is_told_in_utc_whatever_the_zone_of_the_database():
    assert texts.clock("2026-11-30T01:02:03+05:30") == "2026-11-29 19:32:03"
