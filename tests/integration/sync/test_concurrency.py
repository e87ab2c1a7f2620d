"""Many callers at once: what must happen once happens once, whoever comes last."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import ModuleType

import pytest

from shared.errors import Conflict, StreamHeld
from shared.schemas.base import Page
from shared.schemas.views import DeliveryRow
from sync_service import store
from tests.integration.sync.builder import Builder


async def test_many_submitters_of_the_last_slots_close_and_cut_once(build: Builder) -> None:
    await build.declare(groups_per_step=4, rollouts_per_group=4)
    groups = [await build.open(1, index) for index in range(4)]
    rollouts = [build.rollout(group, slot, calls=2) for group in groups for slot in range(4)]
    storm = [build.report(rollout) for rollout in rollouts for _ in range(2)]
    storm += [build.send([score]) for rollout in rollouts for score in build.scores(rollout) for _ in range(2)]
    await asyncio.gather(*storm)
    (batch,) = await build.sql("SELECT opened, closed, sealed, cut_at IS NOT NULL AS cut FROM batches")
    assert tuple(batch) == (4, 4, 4, True)
    counts = await build.sql("SELECT final, reported, state, scoring FROM groups")
    assert {tuple(row) for row in counts} == {(4, 4, "complete", "sealed")}
    page = await build.get(f"/v1/runs/{build.run}/deliveries", Page[DeliveryRow])
    assert [(row.role, row.state) for row in page.items] == [("executor", "ready"), ("planner", "ready")]


async def test_of_many_rollouts_for_one_slot_one_is_taken(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    results = await asyncio.gather(
        *[build.client.submit_rollouts([build.rollout(group, 0, calls=0)]) for _ in range(12)]
    )
    assert Counter(result.items[0].status for result in results) == {200: 1, 409: 11}
    assert (await build.group(group)).final_slots == (0,)


async def test_of_many_rollouts_that_name_one_trajectory_one_is_taken(build: Builder) -> None:
    await build.declare(rollouts_per_group=6)
    groups = [await build.open(1, index) for index in range(2)]
    shared = build.rollout(groups[0]).body.executor_trajectories
    rivals = [build.rollout(group, slot, executor_trajectories=shared) for group in groups for slot in range(6)]
    results = await asyncio.gather(*[build.client.submit_rollouts([rival]) for rival in rivals])
    assert Counter(result.items[0].status for result in results) == {200: 1, 409: 11}


async def test_overlapping_requests_in_opposite_orders_all_get_through(build: Builder) -> None:
    await build.declare(groups_per_step=8, rollouts_per_group=8)
    groups = [await build.open(1, index) for index in range(8)]
    rollouts = [build.rollout(group, slot) for slot in range(8) for group in groups]
    scores = [score for rollout in rollouts for score in build.scores(rollout)]
    await asyncio.gather(
        build.report(*rollouts),
        build.send(scores),
        build.report(*reversed(rollouts)),
        build.send(scores[::-1]),
        build.send(scores[20:] + scores[:20]),
    )
    status = await build.client.status(build.run)
    assert (status.rollouts, status.trajectories) == ({"reported": 64}, {"scored": 64})
    (batch,) = await build.sql("SELECT closed, sealed FROM batches")
    assert tuple(batch) == (8, 8)


async def test_the_last_groups_of_a_run_opened_at_once_drain_it(build: Builder) -> None:
    await build.declare(steps=3, staleness=2, groups_per_step=4)
    await asyncio.gather(*[build.open(step, index) for step in (1, 2, 3) for index in range(4)])
    assert (await build.client.run(build.run)).state == "draining"


def in_between(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, other: Callable[[], Awaitable]) -> None:
    """Let `other` happen, once, right before the statement `name` of a transaction."""
    statement, pending = getattr(module, name), [other]

    async def interrupted(*arguments, **named):
        if pending:
            await pending.pop()()
        return await statement(*arguments, **named)

    monkeypatch.setattr(module, name, interrupted)


@pytest.mark.parametrize(
    ("module", "statement"), [(store.rollouts, "find_many"), (store.trajectories, "submit")], ids=["found", "named"]
)
async def test_a_rollout_that_comes_between_two_statements_of_its_score_is_seen(
    build: Builder, monkeypatch: pytest.MonkeyPatch, module: ModuleType, statement: str
) -> None:
    await build.declare()
    group = await build.open()
    first, second = build.rollout(group, 0), build.rollout(group, 1, calls=0)
    in_between(monkeypatch, module, statement, lambda: build.report(first, second))
    await build.send(build.scores(first))
    view = await build.group(group)
    assert (view.state, view.scoring) == ("complete", "sealed")


async def test_a_trajectory_that_is_named_between_two_statements_is_not_named_twice(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await build.declare()
    group = await build.open()
    first, rival_group = build.rollout(group, 0), await build.open(1, 1)
    rival = build.rollout(rival_group, 0, executor_trajectories=first.body.executor_trajectories)
    in_between(monkeypatch, store.rollouts, "record", lambda: build.report(rival))
    (result,) = (await build.client.submit_rollouts([first])).items
    assert result.status == 409
    assert (await build.group(group)).final_slots == ()


async def test_one_place_is_opened_once(build: Builder) -> None:
    await build.declare()
    results = await asyncio.gather(*[build.open(1, 0) for _ in range(10)], return_exceptions=True)
    assert sum(isinstance(result, str) for result in results) == 1
    assert all(isinstance(result, str | Conflict) for result in results)
    (batch,) = await build.sql("SELECT opened FROM batches")
    assert batch.opened == 1


async def test_of_many_workers_one_holds_the_stream(build: Builder) -> None:
    await build.declare()
    workers = [build.trainer("planner", f"planner-{n}") for n in range(8)]
    results = await asyncio.gather(*[worker.resume() for worker in workers], return_exceptions=True)
    assert Counter(type(result) for result in results) == {int: 1, StreamHeld: 7}


async def test_the_last_acks_of_both_roles_at_once_finish_the_run(build: Builder) -> None:
    await build.declare(steps=1)
    await build.fill(1)
    trainers = [build.trainer("planner"), build.trainer("executor")]
    for trainer in trainers:
        await trainer.resume()
    deliveries = [await trainer.delivery() for trainer in trainers]
    await asyncio.gather(*[trainer.ack(delivery) for trainer, delivery in zip(trainers, deliveries, strict=True)])
    assert (await build.client.run(build.run)).state == "finished"


@pytest.mark.parametrize("attempt", range(3))
async def test_a_drain_while_the_last_groups_close_leaves_nothing_uncut(build: Builder, attempt: int) -> None:
    await build.declare(groups_per_step=6)
    groups = [await build.open(1, index) for index in range(3)]
    reports = [build.report(*[build.rollout(group, slot, calls=0) for slot in (0, 1)]) for group in groups]
    reports.insert(attempt, build.client.drain(build.run))
    await asyncio.gather(*reports)
    (batch,) = await build.sql("SELECT opened, closed, cut_at IS NOT NULL AS cut FROM batches")
    assert tuple(batch) == (3, 3, True)
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await trainer.resume()
        await trainer.train()
    assert (await build.client.run(build.run)).state == "finished"


async def test_repeated_acks_at_once_are_all_answered_and_counted_once(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    executor = build.trainer("executor")
    await executor.resume()
    ack = executor.ack_of(await executor.delivery())
    await asyncio.gather(*[build.client.ack(build.run, "executor", ack) for _ in range(8)])
    assert len([s for s in await build.client.steps(build.run) if s.role == "executor"]) == 1
