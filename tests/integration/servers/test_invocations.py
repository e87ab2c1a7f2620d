"""The executor's endpoint: joined, recalled, cancelled, evaluated, refused; and after a restart."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from shared.ids import new_id
from shared.schemas.invocation import EvaluationPolicy
from tests.processes import words
from tests.waiting import until

from .requests import put, request
from .trio import Trio, answers, http, trio

shared_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(postgres_url: str, redis_url: str, module_folder: Path) -> AsyncGenerator[Trio]:
    """One executor, for all tests that leave it as it was."""
    async with trio(postgres_url, redis_url, module_folder) as servers:
        await servers.start_executor(answers(3.0), trains=False)
        await servers.declare(trained_roles=("planner",))
        yield servers


@shared_loop
async def test_the_same_request_again_is_joined_and_recalled_and_another_one_refused(servers: Trio):
    invocation, body = new_id(), request(servers.run)
    async with http(servers.executor) as client:
        joined = await asyncio.gather(*(put(client, invocation, body) for _ in range(3)))
        recalled = await put(client, invocation, body)
        other = await put(client, invocation, request(servers.run, subtask="2"))
    assert {response.content for response in joined} == {recalled.content}
    assert (other.status_code, other.json()["type"]) == (409, "urn:tandem:body-conflict")


@shared_loop
async def test_a_client_that_goes_away_leaves_no_trajectory_and_the_id_starts_afresh(servers: Trio):
    assert servers.executor is not None
    (sampler,) = (p for p in psutil.Process().children(recursive=True) if "shared.policy.worker" in words(p))
    invocations = servers.executor.state.parts.invocations
    invocation, body = new_id(), request(servers.run)
    async with http(servers.executor) as client:
        sampler.send_signal(signal.SIGSTOP)
        try:
            asked = asyncio.create_task(put(client, invocation, body))
            await until(lambda: invocations._running)
            asked.cancel()
            await until(lambda: not invocations._running)
        finally:
            sampler.send_signal(signal.SIGCONT)
        assert (await client.get(f"/v1/trajectories/{invocation}")).status_code == 404
        assert (await put(client, invocation, body)).status_code == 200
        assert (await client.get(f"/v1/trajectories/{invocation}")).status_code == 200


@shared_loop
async def test_an_evaluation_is_not_stored_or_sent_and_runs_on_the_named_checkpoint(servers: Trio):
    known = (await servers.client.status(servers.run)).trajectories
    greedy = EvaluationPolicy(checkpoint="initial", temperature=0.0)
    ids = [new_id() for _ in range(4)]
    async with http(servers.executor) as client:
        answered = await asyncio.gather(*(put(client, id_, request(servers.run, evaluation=greedy)) for id_ in ids))
        assert len({response.content for response in answered}) == 1
        assert [(await client.get(f"/v1/trajectories/{id_}")).status_code for id_ in ids] == [404] * 4
        missing = request(servers.run, evaluation=EvaluationPolicy(checkpoint="step-7"))
        refused = await put(client, new_id(), missing)
    assert (refused.status_code, "step-7" in refused.json()["detail"]) == (404, True)
    assert sum((await servers.client.status(servers.run)).trajectories.values()) <= sum(known.values()) + 2


@shared_loop
async def test_bad_requests_are_refused_by_name(servers: Trio):
    async with http(servers.executor) as client:
        path = f"/v1/invocations/{new_id()}"
        unknown = await client.put(path, json={**request(servers.run).model_dump(mode="json"), "colour": "red"})
        other_run = await put(client, new_id(), request("another"))
        no_id = await put(client, "not-an-id", request(servers.run))
    assert (unknown.status_code, "colour" in unknown.json()["detail"]) == (422, True)
    assert (other_run.status_code, "another" in other_run.json()["detail"]) == (409, True)
    assert no_id.status_code == 422


async def test_after_a_restart_it_is_answered_from_the_store_and_its_score_is_asked_and_sent(
    postgres_url: str, redis_url: str, tmp_path: Path
):
    """The process that stored it never learned of the run, so it could not send it."""
    invocation = new_id()
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        body = request(servers.run)
        async with http(await servers.start_executor(answers(3.0), trains=False)) as client:
            first = await put(client, invocation, body)
    assert first.status_code == 200
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.declare(trained_roles=("planner",))
        async with http(await servers.start_executor(answers(3.0), trains=False)) as client:
            assert (await put(client, invocation, body)).content == first.content
        status = await servers.status_where(lambda status: status.trajectories)
        assert status.trajectories == {"scored": 1}
