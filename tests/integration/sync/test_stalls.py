"""Stalls: who waits for whom and since when, in the status and as events; and workers that are lost."""

import pytest

from shared.schemas.base import Page
from shared.schemas.events import EventPage
from shared.schemas.run import Wait
from shared.schemas.stream import Heartbeat
from shared.schemas.views import WorkerRow
from sync_service import reaper
from sync_service.config import SyncConfig
from tests.integration.sync.builder import Builder

AGO = "now() - interval '1 hour'"
GROUPS = f"UPDATE groups SET opened_at = {AGO}"
CLOSED = f"UPDATE groups SET opened_at = {AGO}, closed_at = {AGO}, score_deadline = now() + interval '1 hour'"
DELIVERIES = f"UPDATE deliveries SET ready_at = {AGO}"


@pytest.fixture
def sync_config(sync_config: SyncConfig) -> SyncConfig:
    """What has lasted for a minute is a stall."""
    return sync_config.model_copy(update={"stall_s": 60.0})


async def told(build: Builder) -> list[tuple]:
    """The detector looks; what it has told so far: kind, code or worker, who, step."""
    await reaper.detect(build.app.state.service)
    events = (await build.get("/v1/events", EventPage)).items
    kinds = ("stall-began", "stall-ended", "worker-lost", "worker-back")
    return [
        (event.kind, event.body.get("code", event.body.get("worker")), event.body.get("who"), event.body.get("step"))
        for event in events
        if event.kind in kinds
    ]


async def waits(build: Builder) -> dict[tuple[str, str], Wait]:
    status = await build.client.status(build.run)
    assert status.waiting_for == tuple(wait.text for wait in status.waits)
    return {(wait.code, wait.who): wait for wait in status.waits}


async def test_a_batch_without_a_trainer_is_a_stall_until_one_comes(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    found = (await waits(build))["no-trainer", "executor"]
    assert (found.whom, found.step, found.count, found.stalled) == ("trainer", 1, 1, False)
    assert await told(build) == []
    await build.sql(DELIVERIES)
    assert (await waits(build))["no-trainer", "executor"].stalled
    began = [("stall-began", "no-trainer", role, 1) for role in ("executor", "planner")]
    assert await told(build) == began
    assert await told(build) == began, "what goes on is told once"
    await build.trainer("planner").resume()
    assert await told(build) == [*began, ("stall-ended", "no-trainer", "planner", 1)]


async def test_a_trainer_that_has_just_left_is_not_waited_for_since_the_batch_was_ready(build: Builder) -> None:
    await build.declare(trained_roles=("planner",))
    await build.fill(1, calls=0)
    await build.fill(2, calls=0)
    planner = build.trainer("planner")
    await planner.resume()
    await planner.train()
    await build.sql(DELIVERIES)
    await planner.release()
    assert not (await waits(build))["no-trainer", "planner"].stalled


async def test_the_planner_waits_for_the_live_step_of_the_slower_role(build: Builder) -> None:
    await build.declare(steps=9, staleness=0, groups_per_step=1)
    await build.fill(1)
    planner = build.trainer("planner")
    await planner.resume()
    await planner.train()
    await build.sql(GROUPS)
    assert not (await waits(build))["live-step", "planner"].stalled, "the executor's batch has just come"
    await build.sql(CLOSED)
    await build.sql(DELIVERIES)
    found = (await waits(build))["live-step", "planner"]
    assert (found.whom, found.step, found.stalled) == ("executor", 2, True)
    assert ("stall-began", "live-step", "planner", 2) in await told(build)


async def test_groups_and_scores_are_waited_for_until_a_deadline(build: Builder) -> None:
    await build.declare(groups_per_step=1, trained_roles=("executor",))
    group = await build.open()
    await build.sql(GROUPS)
    found = (await waits(build))["open-groups", "executor"]
    assert (found.whom, found.step, found.count, found.stalled) == ("planner", 1, 1, True)
    assert found.until is not None
    assert found.until > found.since
    assert "1 group is open" in found.text
    await build.report(build.rollout(group, 0), build.rollout(group, 1))
    await build.sql(CLOSED)
    found = (await waits(build))["scores", "executor"]
    assert (found.whom, found.step, found.count, found.stalled) == ("executor", 1, 1, True)
    assert found.until is not None


async def test_a_step_waits_for_groups_that_nobody_has_opened(build: Builder) -> None:
    await build.declare(groups_per_step=2, trained_roles=("planner",))
    group = await build.open()
    await build.report(build.rollout(group, 0, calls=0), build.rollout(group, 1, calls=0))
    assert "not all of its groups are opened" in (await waits(build))["open-groups", "planner"].text


async def test_a_dead_delivery_waits_for_the_operator_since_it_died(build: Builder) -> None:
    await build.declare(max_attempts=1, trained_roles=("planner",))
    await build.fill(1, calls=0)
    await build.sql(DELIVERIES)
    planner = build.trainer("planner")
    await planner.resume()
    await planner.delivery()
    await planner.release("cuda-error")
    found = (await waits(build))["dead-delivery", "planner"]
    assert (found.whom, found.step, found.stalled) == ("operator", 1, False)
    await build.sql(DELIVERIES)
    assert ("stall-began", "dead-delivery", "planner", 1) in await told(build)


async def test_a_planner_that_opens_nothing_although_it_may_is_waited_for(build: Builder) -> None:
    await build.declare(groups_per_step=1, trained_roles=("planner",))
    await build.fill(1, calls=0)
    planner = build.trainer("planner")
    await planner.resume()
    await planner.train()
    assert await waits(build) == {}
    await build.sql(GROUPS)
    await build.sql(f"UPDATE deliveries SET acked_at = {AGO} WHERE state = 'acked'")
    found = (await waits(build))["unopened-groups", "run"]
    assert (found.whom, found.step, found.stalled) == ("planner", 2, True)


async def test_a_pause_stalls_nobody_and_ends_what_was_stalled(build: Builder) -> None:
    await build.declare(trained_roles=("planner",))
    await build.fill(1, calls=0)
    await build.sql(DELIVERIES)
    began = [("stall-began", "no-trainer", "planner", 1)]
    assert await told(build) == began
    await build.post(f"/v1/runs/{build.run}:pause")
    await build.sql(f"UPDATE runs SET paused_at = {AGO}")
    found = await waits(build)
    assert found["paused", "run"].whom == "operator"
    assert not any(wait.stalled for wait in found.values())
    assert await told(build) == [*began, ("stall-ended", "no-trainer", "planner", 1)]


async def test_a_run_that_is_over_waits_for_nobody(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    await build.sql(DELIVERIES)
    assert len(await told(build)) == 2
    await build.client.fail(build.run, "gave-up")
    assert await waits(build) == {}
    assert [kind for kind, *_ in await told(build)][2:] == ["stall-ended"] * 2


async def test_a_worker_that_is_not_heard_of_is_lost_until_it_is_back(build: Builder) -> None:
    await build.declare()
    beat = Heartbeat(role="planner", url="http://gpu-1:8701")
    for worker in ("planner-1", "planner-2"):
        await build.client.heartbeat(build.run, worker, beat)
    await build.client.heartbeat(build.run, "planner-3", beat.model_copy(update={"draining": True}))
    await build.sql(f"UPDATE workers SET seen_at = {AGO} WHERE worker <> 'planner-1'")
    workers = (await build.get(f"/v1/runs/{build.run}/workers", Page[WorkerRow])).items
    assert [worker.lost for worker in workers] == [False, True, False], "the third said that it goes"
    lost = [("worker-lost", "planner-2", None, None)]
    assert await told(build) == lost
    await build.client.heartbeat(build.run, "planner-2", beat)
    assert await told(build) == [*lost, ("worker-back", "planner-2", None, None)]
