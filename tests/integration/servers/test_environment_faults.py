"""A reward that is no number stops the server with one line that names environment, judgement and value."""

from pathlib import Path

import httpx
import pytest

from shared.errors import UserError
from shared.ids import new_id
from tests.waiting import until

from .requests import put, request
from .trio import answers, http, trio


def nobody(request: httpx.Request) -> httpx.Response:
    raise AssertionError("this planner never delegates")


async def test_correctness(postgres_url: str, redis_url: str, tmp_path: Path):
    settings = {
        "environment": "tests.parity_environment:Poisoned",
        "environment_options": {"judgement": "correctness"},
        "trains": False,
    }
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        planner = await servers.start_planner(answers(5.0), executor=httpx.MockTransport(nobody), **settings)
        async with http(planner) as client:
            path = f"/v1/evaluations/{new_id()}"
            await client.put(path, json={"split": "test", "n": 3})
            await until(lambda: planner.state.parts.evaluations.view(path.rpartition("/")[2]).state == "failed")
            assert "environment poisoned: correctness of task test-0-" in (await client.get(path)).json()["reason"]
        await servers.declare(trained_roles=("executor",))
        await until(lambda: getattr(planner.state, "fault", None))
        status = await servers.client.status(servers.run)
    with pytest.raises(UserError, match=r"environment poisoned: correctness of task train-1-\d is nan"):
        servers.raise_fault()
    assert status.rollouts == {}


async def test_expert_score(postgres_url: str, redis_url: str, tmp_path: Path):
    """The trajectory is stored, so a mended environment judges it after a restart."""
    settings = {
        "environment": "tests.parity_environment:Poisoned",
        "environment_options": {"judgement": "expert_score"},
        "trains": False,
    }
    invocation = new_id()
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        executor = await servers.start_executor(answers(5.0), **settings)
        await servers.declare(trained_roles=("planner",))
        async with http(executor) as client:
            assert (await put(client, invocation, request(servers.run))).status_code == 200
        await until(lambda: getattr(executor.state, "fault", None))
        with pytest.raises(UserError, match=rf"poisoned: expert_score of trajectory {invocation} is nan"):
            servers.raise_fault()
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.start_executor(answers(5.0), trains=False)
        status = await servers.status_where(lambda status: status.trajectories)
    assert status.trajectories == {"scored": 1}
