"""From a step to its groups, a rollout, its invocations, and the texts of both servers, which are hostile."""

import asyncio
import re
from collections.abc import AsyncGenerator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from shared.ids import new_id
from shared.schemas.rollout import RolloutItem
from shared.schemas.stream import Heartbeat
from sync_service.lanes import PAGES_IN_WORK
from sync_service.operations import lineage, reading
from sync_service.owner import Owners
from tests.integration.dashboard.role_servers import RoleServers
from tests.integration.sync.builder import Builder
from tests.waiting import until

KEY = "tandem_text_key"


@pytest.fixture
def servers(sync_app: FastAPI) -> RoleServers:
    """What is at the addresses of both roles' workers."""
    servers = RoleServers()
    sync_app.state.service.owners = Owners(KEY, servers.transport())
    return servers


@pytest.fixture
async def browser(sync_app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=sync_app), base_url="http://sync") as client:
        yield client


async def page(browser: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await browser.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


async def trained(build: Builder) -> RolloutItem:
    """A run with one trained step, whose rollouts made two calls each; one of them."""
    await build.declare(groups_per_step=1)
    rollouts = await build.fill(1, calls=2)
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await trainer.resume()
        await trainer.train()
        await build.client.heartbeat(build.run, f"{role}-1", Heartbeat(role=role, url=f"http://{role}:8701/"))
    return rollouts[0]


async def test_the_formulas_in_force_and_the_scores_of_their_terms_are_shown(
    build: Builder, browser: httpx.AsyncClient
) -> None:
    await build.declare(planner_reward={"correct": 0.7, "efficiency": 0.2, "budget": {"calls": 8}})
    rollout = build.rollout(await build.open(), r_efficiency=0.25)
    await build.report(rollout)
    first = await page(browser, f"/runs/{build.run}")
    assert (
        "R_M = r_format*(0.1 + 0.7*r_correct + 0.2*r_correct*r_efficiency); r_efficiency = 1 - min(1, calls/8)" in first
    )
    shown = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}")
    assert re.search(r'<span class="note">r_efficiency</span> 0\.25', shown)
    assert "r_diversity" not in shown
    assert re.search(r'<span class="value">0\.85</span> <span class="note">reward</span>', shown)


async def test_steps_lead_to_groups_and_rollouts_with_their_fates(build: Builder, browser: httpx.AsyncClient) -> None:
    rollout = await trained(build)
    root = f"/runs/{build.run}/steps"
    assert f'href="{root}/1"' in await page(browser, root)
    step = await page(browser, f"{root}/1")
    assert f'href="{root}/1/rollouts/{rollout.id}"' in step
    assert "trained ×1" in step
    one = await page(browser, f"{root}/1/rollouts/{rollout.id}")
    assert all(id in one for id in rollout.body.executor_trajectories)
    assert f'hx-get="{root}/1/rollouts/{rollout.id}/text"' in one
    await page(browser, f"{root}/2", 404)
    await page(browser, f"{root}/1/rollouts/{rollout.body.planner_trajectory}", 404)
    await page(browser, f"/runs/another/steps/1/rollouts/{rollout.id}", 404)


async def test_a_step_tells_what_was_left_out_and_why(build: Builder, browser: httpx.AsyncClient) -> None:
    await build.declare(groups_per_step=1, rollouts_per_group=4, trained_roles=("executor",))
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in (0, 1)]
    await build.report(*rollouts, build.aborted(group, 2), build.rollout(group, 3, calls=0))
    await build.send(build.scores(rollouts[0]))
    unscored = {"status": "unscored", "reason": "judge-failed", "r_format": None, "r_expert": None}
    await build.send(build.scores(rollouts[1], **unscored))
    step = await page(browser, f"/runs/{build.run}/steps/1")
    for said in ("aborted: executor-unreachable", "unscored: judge-failed", "waiting for the step"):
        assert said in step


async def test_texts_come_from_their_servers_with_each_call_below_its_turn(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers
) -> None:
    rollout = await trained(build)
    servers.tell(rollout, build.run)
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    first, second = rollout.body.executor_trajectories
    places = [text.index(part) for part in ("find 0", first, "I looked for 0", second, "I looked for 1", "&lt;answer")]
    assert places == sorted(places)
    assert {request.headers["authorization"] for request in servers.asked} == {f"Bearer {KEY}"}
    assert {str(request.url.copy_with(path="/")) for request in servers.asked} == {
        "http://planner:8701/",
        "http://executor:8701/",
    }


async def test_what_one_policy_delegated_to_itself_is_read_from_the_planner_server(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers
) -> None:
    await build.declare(groups_per_step=1, trained_roles=("planner",))
    rollout, *_ = await build.fill(1, calls=0)
    await build.client.heartbeat(build.run, "planner-1", Heartbeat(role="planner", url="http://planner:8701/"))
    parts = (new_id(), new_id())
    servers.tell(rollout, build.run, parts)
    del servers.texts[parts[1]]
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    places = [text.index(part) for part in ("find 0", parts[0], "I looked for 0", "&lt;answer", parts[1])]
    assert places == sorted(places)
    assert text.count("the same policy, trained with") == 2
    assert "The text is not here: the planner server does not have it any more." in text


@pytest.mark.parametrize("parts", [["../checkpoints"], "x", [1], {"a": 1}])
async def test_parts_that_are_no_ids_are_not_asked_for(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers, parts: object
) -> None:
    rollout = await trained(build)
    servers.tell(rollout, build.run)
    planner = servers.texts[rollout.body.planner_trajectory]
    servers.texts[planner.id] = planner.model_copy(update={"facts": {"parts": parts}})
    await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    assert len(servers.asked) == 3


async def test_hostile_text_is_shown_as_text_and_cut(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers
) -> None:
    rollout = await trained(build)
    servers.tell(rollout, build.run)
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    assert "<script>hacked" not in text
    assert "&lt;script&gt;hacked = 1" in text
    assert "\0" not in text
    assert re.search("<bdi[^>]*>[^<]*\u202eesrever[^<]*</bdi>", text), "its direction stays within it"
    assert "more characters are not shown" in text
    assert "x" * 25_000 not in text


async def test_where_an_owner_cannot_be_reached_the_page_says_so(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers
) -> None:
    rollout = await trained(build)
    path = f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text"
    assert "does not have it any more" in await page(browser, path)
    servers.tell(rollout, build.run)
    del servers.texts[rollout.body.planner_trajectory]
    text = await page(browser, path)
    assert "text is not here" in text
    assert "I looked for 1" in text, "the other texts are shown all the same"
    await build.sql("DELETE FROM workers")
    assert "no planner server has said where it is" in await page(browser, path)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Response("", 401), "refuses this service"),
        (Response("", 500), "HTTP 500"),
        (Response("", 302, {"location": "http://169.254.169.254/"}), "HTTP 302"),
        (Response('{"secret": 1}', 200), "no server of ours"),
        (Response("x" * (2**21 + 1), 200), "larger than 2 MiB"),
        (Response("", 200, {"content-encoding": "gzip"}), "HTTP 200"),
    ],
)
async def test_an_answer_that_is_no_such_trajectory_is_not_shown(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers, answer: Response, said: str
) -> None:
    rollout = await trained(build)
    servers.answer = answer
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    assert said in text
    assert "secret" not in text


async def test_another_trajectory_than_the_one_asked_for_is_not_shown(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers
) -> None:
    rollout = await trained(build)
    servers.tell(rollout, "another-run")
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    assert "answers with another trajectory" in text
    assert "Which capital?" not in text


async def test_what_does_not_come_in_time_is_said(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = await trained(build)
    servers.tell(rollout, build.run)
    servers.silent = True
    monkeypatch.setattr(reading, "ALL_S", 0.0)
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    assert "not read within 0 s" in text


async def test_servers_that_do_not_answer_hold_up_no_other_page(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = await trained(build)
    servers.silent = True
    monkeypatch.setattr(reading, "ALL_S", 60.0)
    path = f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text"
    asking = [asyncio.create_task(browser.get(path)) for _ in range(PAGES_IN_WORK + 1)]
    texts = build.app.state.lanes[-1]
    await until(lambda: texts.waiting == 1)
    await page(browser, f"/runs/{build.run}")
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_what_a_page_leaves_out_it_says(
    build: Builder, browser: httpx.AsyncClient, servers: RoleServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout = await trained(build)
    servers.tell(rollout, build.run)
    monkeypatch.setattr(reading, "MOST", 1)
    text = await page(browser, f"/runs/{build.run}/steps/1/rollouts/{rollout.id}/text")
    assert "only those of the first 1 calls are read" in text
    monkeypatch.setattr(lineage, "MOST", 0)
    step = await page(browser, f"/runs/{build.run}/steps/1")
    assert "are beyond them" in step
    assert "No rollout has come yet" not in step
