"""The last checkpoint's weights hold each batch once, wherever in a step the trainer died."""

import asyncio
from pathlib import Path

import pytest

from shared.client import SyncClient
from shared.stream import Delivery, Stream
from tests.faults import judge
from tests.faults.trainer import ack_of, trainable
from tests.faults.weights import ToyWeights, surviving
from tests.integration.sync.builder import Builder

STEPS = 4


class Died(Exception):
    """Nothing of the trainer below this line happens."""


async def life(client: SyncClient, run: str, weights: ToyWeights, dies: str = "", at: int = 0) -> None:
    """Train with a checkpoint at each even step; in step `at`, die right before `dies`."""
    ack = None
    stream = Stream(client, client, run=run, role="planner", worker="planner-1", weights=weights)

    def reach(point: str, delivery: Delivery) -> None:
        if (point, delivery.step) == (dies, at):
            raise Died

    async with asyncio.TaskGroup() as background:
        async for delivery in stream.deliveries():
            await delivery.may_step()
            reach("update", delivery)
            rows = trainable(delivery.view)
            ack = ack_of(delivery.view, rows, weights.train(delivery.step, rows))
            reach("checkpoint", delivery)
            if delivery.step % 2 == 0:
                weights.save(ack)
            reach("ack", delivery)
            await delivery.ack(ack)
            reach("confirm", delivery)
            delivery.confirm(weights.updates, background)
    if ack is not None:
        weights.save(ack)


@pytest.mark.parametrize("dies", ["update", "checkpoint", "ack", "confirm"])
async def test_each_batch_is_in_the_weights_once(build: Builder, tmp_path: Path, dies: str) -> None:
    for at in range(1, STEPS + 1):
        run = Builder(build.app, build.client, run=f"dies-in-{at}")
        await run.declare(steps=STEPS, staleness=STEPS, trained_roles=("planner",), groups_per_step=1)
        for step in range(1, STEPS + 1):
            await run.fill(step, calls=0)
        with pytest.RaisesGroup(Died):
            await life(run.client, run.run, ToyWeights(tmp_path / run.run), dies, at)
        await life(run.client, run.run, ToyWeights(tmp_path / run.run))
        held = surviving(tmp_path / run.run)
        assert [step for step, _ in held] == [1, 2, 3, 4]
        recorded = await run.sql(judge.FATES["planner"].replace("%s", ":run"), run=run.run)
        rows = {id: times for _, rows in held for id, times in rows.items()}
        assert {str(row.id): row.multiplicity for row in recorded} == rows
        assert len(recorded) == 2 * STEPS
