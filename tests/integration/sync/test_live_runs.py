"""Two runs live at once in one service, on one database: what happens to one is nothing to the other."""

import asyncio

import pytest

from shared.errors import InvalidInput, LeaseLost
from shared.schemas import ROLES
from shared.schemas.base import Page
from shared.schemas.views import DeliveryRow, TrajectoryRecord
from sync_service import reaper
from tests.integration.sync.builder import Builder, Trainer, owned


@pytest.fixture
async def pair(build: Builder) -> tuple[Builder, Builder]:
    """Two runs of two steps, both steps of both ready; one has two attempts for a step, the other many."""
    runs = await build.declare(steps=2, max_attempts=2), Builder(build.app, build.client, run="r2", spec=build.spec)
    await runs[1].declare(steps=2, max_attempts=9)
    for run in runs:
        for step in (1, 2):
            await run.fill(step)
    return runs


async def deliveries(build: Builder) -> list[tuple[str, int, str, int]]:
    """Every delivery of a run: role, step, state and attempts."""
    page = await build.get(f"/v1/runs/{build.run}/deliveries", Page[DeliveryRow])
    return [(row.role, row.step, row.state, row.attempts) for row in page.items]


async def holding(build: Builder, role) -> Trainer:
    """A trainer that holds its stream; the workers of both runs have the same names."""
    trainer = build.trainer(role)
    await trainer.resume()
    return trainer


async def test_workers_of_one_name_train_both_runs_at_once(pair: tuple[Builder, Builder]) -> None:
    async def train(build: Builder, role) -> list[str]:
        trainer = await holding(build, role)
        return [id for _ in range(2) for id in owned(await trainer.train())]

    rows = await asyncio.gather(*(train(build, role) for build in pair for role in ROLES))
    assert len({id for ids in rows for id in ids}) == sum(map(len, rows)), "a row was delivered to two runs"
    for build in pair:
        status = await build.client.status(build.run)
        assert (status.state, {role.epoch for role in status.roles.values()}) == ("finished", {1})


async def test_an_epoch_and_an_ack_of_one_run_are_nothing_in_the_other(pair: tuple[Builder, Builder]) -> None:
    first, second = pair
    ours, theirs = await holding(first, "executor"), await holding(second, "executor")
    await theirs.resume()
    delivery, other = await ours.delivery(), await theirs.delivery()
    assert (delivery.step, delivery.epoch, other.step, other.epoch) == (1, 1, 1, 2)
    strayed = Trainer(first.client, second.run, "executor", ours.worker, epoch=ours.epoch)
    with pytest.raises(LeaseLost):
        await strayed.ack(delivery)
    strayed.epoch = theirs.epoch
    with pytest.raises(InvalidInput, match="missing"):
        await strayed.ack(delivery)
    assert await deliveries(first) == await deliveries(second)
    for id in owned(delivery):
        assert (await first.get(f"/v1/trajectories/{id}", TrajectoryRecord)).state == "scored"


async def test_a_lease_that_expires_and_a_step_that_dies_are_those_of_one_run(
    pair: tuple[Builder, Builder],
) -> None:
    first, second = pair
    theirs = await holding(second, "executor")
    await theirs.delivery()
    for _ in range(2):
        await (await holding(first, "executor")).delivery()
        await first.expire_lease("executor")
        await reaper.sweep(first.app.state.service.database)
    assert ("executor", 1, "dead", 2) in await deliveries(first)
    assert ("executor", 1, "leased", 0) in await deliveries(second)
    await theirs.renew()
    for _ in range(2):
        await theirs.train()


async def test_a_run_that_fails_stops_itself_alone(pair: tuple[Builder, Builder]) -> None:
    first, second = pair
    ours, theirs = await holding(first, "executor"), await holding(second, "executor")
    await first.post(f"/v1/runs/{first.run}:fail?reason=by-operator")
    assert (await ours.lease()).finished
    for _ in range(2):
        await theirs.train()
    planner = await holding(second, "planner")
    for _ in range(2):
        await planner.train()
    assert [(await build.client.run(build.run)).state for build in pair] == ["failed", "finished"]
