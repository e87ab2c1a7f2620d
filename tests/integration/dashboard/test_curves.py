"""The pages of curves: both roles on one axis, several runs side by side, rows against D_max, coverage; long runs."""

import json
import re
from collections.abc import AsyncGenerator

import httpx
import pytest
from fastapi import FastAPI

from sync_service.operations.series import POINTS, spaced
from tests.integration.sync.builder import Builder

DATA = re.compile(r'id="(\w+)" data-chart.*?<script type="application/json">(.*?)</script>', re.DOTALL)


@pytest.fixture
async def browser(sync_app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=sync_app), base_url="http://sync") as client:
        yield client


async def charts(browser: httpx.AsyncClient, path: str) -> tuple[str, dict]:
    """A page, and the data of its charts by id."""
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text, {id: json.loads(data) for id, data in DATA.findall(answer.text)}


def lines(chart: dict) -> dict[str, list]:
    return {series["name"]: series["y"] for series in chart["series"]}


async def two_steps(build: Builder, **spec: object) -> None:
    """A run of two steps, whose planner has acked both and whose executor the first one."""
    await build.declare(groups_per_step=1, **spec)
    trainers = {role: build.trainer(role) for role in ("planner", "executor")}
    for step in (1, 2):
        await build.fill(step)
        for role, trainer in trainers.items():
            if step == 1:
                await trainer.resume()
            if step == 1 or role == "planner":
                await trainer.train()
    told = {"reward_mean": 0.5, "reward_deviation": 0.2, "groups": 4, "groups_dead": 1, "rows_copied": 3}
    bars = {"calls_per_rollout": {"0": 1, "1": 60, "3": 30, "9": 9}}
    await build.sql(
        "UPDATE deliveries SET statistics = CAST(:told AS jsonb) || jsonb_build_object('correct_mean', step / 10.0),"
        " histograms = CAST(:bars AS jsonb) WHERE run = :run AND state = 'acked'",
        told=json.dumps(told),
        bars=json.dumps(bars),
        run=build.run,
    )


async def test_both_roles_are_on_one_axis_with_a_band(build: Builder, browser: httpx.AsyncClient) -> None:
    await two_steps(build)
    text, found = await charts(browser, f"/runs/{build.run}/learning")
    reward = found["reward"]
    assert reward["x"] == [1, 2]
    assert lines(reward) == {"planner": [0.5, 0.5], "executor": [0.5, None]}
    assert reward["series"][1]["low"] == [0.3, None]
    assert reward["series"][1]["high"] == [0.7, None]
    assert lines(found["dead"])["planner"] == [0.25, 0.25]
    assert lines(found["accuracy"]) == {"training tasks": [0.1, 0.2]}, "nothing is known of validations"
    assert 'data-smooth="reward"' in text


async def test_runs_are_compared_on_the_axis_of_all(build: Builder, browser: httpx.AsyncClient) -> None:
    await two_steps(build)
    other = Builder(build.app, build.client, run="r2")
    await other.declare(trained_roles=("planner",), groups_per_step=1)
    await other.fill(1, calls=0)
    planner = other.trainer("planner")
    await planner.resume()
    await planner.train()
    await other.sql("UPDATE deliveries SET statistics = '{\"reward_mean\": 0.9}' WHERE run = 'r2' AND state = 'acked'")
    _, found = await charts(browser, f"/runs/{build.run}/learning?runs=r2,{build.run}")
    assert lines(found["reward"]) == {
        "r1, planner": [0.5, 0.5],
        "r1, executor": [0.5, None],
        "r2, planner": [0.9, None],
    }
    assert (await browser.get("/runs/r1/learning?runs=nobody")).status_code == 404
    for wrong in ("a,b,c,d,e", "%3Cscript%3E"):
        assert (await browser.get(f"/runs/r1/learning?runs={wrong}")).status_code == 422


async def test_rows_calls_and_coverage_are_drawn_with_a_warning(build: Builder, browser: httpx.AsyncClient) -> None:
    await two_steps(build, d_max=3)
    text, found = await charts(browser, f"/runs/{build.run}/alignment")
    assert lines(found["rows"]) == {"copied": [3.0, None]}
    assert found["rows"]["lines"][0]["y"] == 3 * 2 * 1
    assert found["calls"]["x"] == ["0", "1", "2", "3 = D_max", "4", "5", "6", "7", "8", "9"]
    assert lines(found["calls"])["rollouts"] == [1, 60, 0, 30, 0, 0, 0, 0, 0, 9]
    assert lines(found["coverage"]) == {"P(d ≤ D_max)": [0.91, None]}
    assert "91.0% of the rollouts stay within D_max = 3 calls" in text
    await build.sql("UPDATE deliveries SET histograms = '{\"calls_per_rollout\": {\"1\": 9}}' WHERE state = 'acked'")
    text, _ = await charts(browser, f"/runs/{build.run}/alignment")
    assert "raise <code>d_max" not in text
    await build.sql(
        "UPDATE deliveries SET histograms = CAST(:bars AS jsonb) WHERE state = 'acked'",
        bars='{"calls_per_rollout": {"3": 9, "2000000000": 1}}',
    )
    _, found = await charts(browser, f"/runs/{build.run}/alignment")
    assert found["calls"]["x"] == ["3 = D_max", "2000000000"]


async def test_an_empty_run_has_empty_pages(build: Builder, browser: httpx.AsyncClient) -> None:
    await build.declare()
    for name in ("learning", "alignment"):
        text, _ = await charts(browser, f"/runs/{build.run}/{name}")
        assert "No step is acked yet" in text
        assert (await browser.get(f"/runs/nobody/{name}")).status_code == 404
    assert "No step is opened yet" in (await browser.get(f"/runs/{build.run}/steps")).text


@pytest.mark.parametrize(("after", "last"), [(0, 0), (0, 1), (0, POINTS), (0, POINTS + 1), (17, 15_625), (9, 9)])
def test_a_long_run_has_as_many_points_as_a_screen(after: int, last: int) -> None:
    steps, every = spaced(after, last)
    assert len(steps) <= POINTS
    assert steps == list(range(steps[0], last + 1, every)) if steps else last <= after
    if steps:
        assert (steps[-1], after < steps[0] <= after + every) == (last, True)
