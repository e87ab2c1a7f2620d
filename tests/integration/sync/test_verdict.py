"""The verdict as the service reads it: from a run that is new, goes on, is left by its trainer, and learns nothing."""

import json

import pytest

from shared.errors import NotFound
from shared.schemas.stream import Heartbeat
from shared.schemas.verdict import Verdict
from tests.integration.sync.builder import Builder

AGO = "now() - interval '94 s'"


async def verdict(build: Builder) -> Verdict:
    return await build.client.verdict(build.run)


async def test_a_run_without_a_group_is_idle_and_an_unknown_one_is_not_found(build: Builder) -> None:
    await build.declare()
    found = await verdict(build)
    assert (found.state, found.step, found.seconds_left) == ("IDLE", 0, None)
    with pytest.raises(NotFound):
        await build.client.verdict("another")


async def test_a_run_whose_roles_train_is_ok_and_says_when_it_ends(build: Builder) -> None:
    await build.declare(steps=9)
    trainers = [build.trainer(role) for role in ("planner", "executor")]
    for trainer in trainers:
        await trainer.resume()
    for step in (1, 2):
        await build.fill(step)
        for trainer in trainers:
            await trainer.train()
    await build.sql(
        "UPDATE deliveries SET ready_at = now() - make_interval(secs => 30 - 10 * step),"
        " leased_at = now() - make_interval(secs => 28 - 10 * step),"
        " acked_at = now() - make_interval(secs => 22 - 10 * step) WHERE state = 'acked'"
    )
    found = await verdict(build)
    assert (found.state, found.step, found.steps) == ("OK", 2, 9)
    assert found.seconds_left == pytest.approx(70.0)
    executor = found.roles["executor"]
    assert (executor.step_s, executor.training_s, executor.waiting_s) == (10.0, 6.0, 2.0)
    assert executor.idle is not None
    assert 6 / 12 <= executor.idle < 1.0, "4 s before the second lease, and at least 2 s since its ack"


async def test_a_stream_without_a_trainer_is_degraded_and_then_stalled(build: Builder) -> None:
    await build.declare(trained_roles=("executor",))
    await build.fill(1)
    await build.sql(f"UPDATE deliveries SET ready_at = {AGO}")
    found = await verdict(build)
    assert (found.state, found.why) == ("DEGRADED", ("executor has had no lease for 94 s; 1 batch is ready",))
    await build.sql("UPDATE deliveries SET ready_at = now() - interval '1 hour'")
    assert (await verdict(build)).state == "STALLED"
    await build.post(f"/v1/runs/{build.run}:pause")
    assert (await verdict(build)).state == "PAUSED"
    await build.client.fail(build.run, "gave-up")
    assert (await verdict(build)).why == ("the run was ended: gave-up",)


async def test_a_lost_worker_degrades_a_run(build: Builder) -> None:
    await build.declare()
    await build.open()
    await build.client.heartbeat(build.run, "planner-1", Heartbeat(role="planner", url="http://gpu-1:8701"))
    assert (await verdict(build)).state == "OK"
    await build.sql(f"UPDATE workers SET seen_at = {AGO}")
    assert (await verdict(build)).why == ("worker planner-1 is lost",)


async def test_what_the_last_acks_say_is_judged(build: Builder) -> None:
    await build.declare(steps=20, trained_roles=("planner",), groups_per_step=1)
    planner = build.trainer("planner")
    await planner.resume()
    for step in range(1, 11):
        await build.fill(step, calls=0)
        await planner.train(skipped="all-dead")
    unsolved = json.dumps({"groups": 1.0, "groups_dead": 1.0, "correct_mean": 0.1})
    await build.sql("UPDATE deliveries SET statistics = CAST(:s AS jsonb)", s=unsolved)
    found = await verdict(build)
    assert (found.state, found.learning) == ("NOT LEARNING", "NOT LEARNING")
    solved = json.dumps({"groups": 1.0, "groups_dead": 1.0, "correct_mean": 0.9})
    await build.sql("UPDATE deliveries SET statistics = CAST(:s AS jsonb)", s=solved)
    found = await verdict(build)
    assert (found.state, found.learning) == ("OK", "SATURATED")


async def test_a_role_that_has_trained_every_step_idles_for_nobody(build: Builder) -> None:
    await build.declare(steps=2, groups_per_step=1)
    planner, executor = build.trainer("planner"), build.trainer("executor")
    for step in (1, 2):
        await build.fill(step)
        if step == 1:
            await planner.resume()
            await executor.resume()
        await planner.train()
        if step == 1:
            await executor.train()
    await build.sql(
        "UPDATE deliveries SET leased_at = now() - make_interval(mins => 61 - step),"
        " acked_at = now() - make_interval(mins => 60 - step) WHERE state = 'acked'"
    )
    roles = (await verdict(build)).roles
    assert roles["planner"].idle == 0.0
    assert (roles["executor"].idle or 0) > 0.9
