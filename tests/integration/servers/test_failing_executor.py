"""An executor that fails is nobody's reward: asked again by the same id, its slot tried again, then aborted."""

import asyncio
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.ids import new_id
from shared.schemas.run import RunStatus
from tests.parity_environment import call

from .test_walking_slice import facts
from .trio import answers, http, trio

ATTEMPTS, SLOTS = 2, 32
BROKEN, SHAKY, HEALTHY = "3", "2", "1"
PLANNER = {**answers(), call("planner", BROKEN): 1.5, call("planner", SHAKY): 1.5, call("planner", HEALTHY): 1.5}


@dataclass
class Unreliable(httpx.AsyncBaseTransport):
    """The wire to a real executor: every request for BROKEN fails, the first one of each id for SHAKY, in turns."""

    through: httpx.AsyncBaseTransport
    seen: Counter[str] = field(default_factory=Counter)
    subtasks: dict[str, str] = field(default_factory=dict)
    rollouts: dict[str, str] = field(default_factory=dict)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body, invocation = json.loads(request.content), request.url.path.rpartition("/")[2]
        self.seen[invocation] += 1
        self.subtasks[invocation], self.rollouts[invocation] = body["subtask"], body["rollout"]
        if body["subtask"] == BROKEN or (body["subtask"] == SHAKY and self.seen[invocation] == 1):
            if len(self.seen) % 2:
                raise httpx.ReadError("connection lost", request=request)
            return httpx.Response(500, text="boom", request=request)
        return await self.through.handle_async_request(request)


@dataclass
class Record:
    wire: Unreliable
    status: RunStatus
    reported: dict[str, dict[str, Any]]
    evaluation: dict[str, Any]


async def run(postgres_url: str, redis_url: str, folder: Path) -> Record:
    async with trio(postgres_url, redis_url, folder) as servers:
        wire = Unreliable(httpx.ASGITransport(await servers.start_executor(answers(2.0), trains=False)))
        settings = {"attempts_per_slot": 2, "invocation_attempts": ATTEMPTS, "invocation_deadline_s": 60.0}
        planner = await servers.start_planner(PLANNER, executor=wire, **settings)
        async with http(planner) as client, asyncio.timeout(60):
            path = f"/v1/evaluations/{new_id()}"
            view = (await client.put(path, json={"split": "test", "n": 30})).json()
            while view["state"] == "running":
                await asyncio.sleep(0.01)
                view = (await client.get(path)).json()
        wire.seen.clear()
        wire.rollouts.clear()
        await servers.declare(steps=1, groups_per_step=4, rollouts_per_group=8, trained_roles=("planner",))
        status = await servers.finished()
    return Record(wire, status, facts(folder / "planner"), view)


@pytest.fixture(scope="module")
def record(postgres_url: str, redis_url: str, module_folder: Path) -> Record:
    return asyncio.run(run(postgres_url, redis_url, module_folder))


def test_a_delegation_is_sent_again_under_the_same_id(record: Record):
    times = defaultdict(set)
    for invocation, count in record.wire.seen.items():
        times[record.wire.subtasks[invocation]].add(count)
    assert times == {HEALTHY: {1}, SHAKY: {2}, BROKEN: {ATTEMPTS}}


def test_the_slot_is_tried_again_under_a_new_rollout(record: Record):
    failed = {record.wire.rollouts[i] for i in record.wire.rollouts if record.wire.subtasks[i] == BROKEN}
    assert failed.isdisjoint(record.reported)
    assert len(failed) > 2 * record.status.rollouts["aborted"] > 0


def test_then_it_is_submitted_as_aborted_and_the_group_shrinks(record: Record):
    assert sum(record.status.rollouts.values()) == SLOTS
    assert record.status.rollouts["reported"] == len(record.reported)
    assert record.status.groups == {"complete": 4}
    assert record.status.state == "finished"


def test_only_what_was_answered_is_named(record: Record):
    named = [name for rollout in record.reported.values() for name in rollout["invocations"]]
    assert {record.wire.subtasks[name] for name in named} == {HEALTHY, SHAKY}
    assert len(set(named)) == len(named)


def test_an_evaluation_whose_executor_keeps_failing_says_why(record: Record):
    assert record.evaluation["state"] == "failed"
    assert f"the executor failed {ATTEMPTS} times" in record.evaluation["reason"]
