"""The trainer of one role: the real `Stream`, toy weights, and after each resume the ack of a zombie."""

import asyncio

from shared.client import SyncClient
from shared.errors import LeaseLost, TandemError
from shared.policy.types import StepAbandoned
from shared.schemas import Role
from shared.schemas.stream import Ack, DeliveryView
from shared.stream import Delivery, Stream
from tests.faults.plan import chance
from tests.faults.recording import RecordingClient
from tests.faults.weights import ToyWeights

CHECKPOINTS = 0.3
"""The share of steps after which a checkpoint is written."""


async def train(sync: RecordingClient, renewals: SyncClient, run: str, role: Role, weights: ToyWeights) -> None:
    """Train until the run is finished; the last checkpoint holds every step."""
    stream = Stream(sync, renewals, run=run, role=role, worker=f"{role}-1", weights=weights)
    probed, last = 0, None
    async with asyncio.TaskGroup() as background:
        async for delivery in stream.deliveries():
            async with delivery:
                if delivery.epoch > probed:
                    await _zombie(sync, delivery)
                    probed = delivery.epoch
                last = await _step(delivery, weights, background)
    if last is not None:
        weights.save(last)


async def _step(delivery: Delivery, weights: ToyWeights, background: asyncio.TaskGroup) -> Ack:
    """One step, in the order of `planner_server/train.py`."""
    rows = trainable(delivery.view)
    if not await delivery.may_step():
        raise StepAbandoned("the lease may be over")
    updates = weights.train(delivery.step, rows)
    ack = ack_of(delivery.view, rows, updates)
    if chance(delivery.view.run, delivery.view.role, delivery.step, "checkpoint") < CHECKPOINTS:
        weights.save(ack)
    await delivery.ack(ack)
    if rows:
        delivery.confirm(updates, background)
    return ack


async def _zombie(sync: RecordingClient, delivery: Delivery) -> None:
    """What a trainer of the epoch before would send now; the ledger has what it was answered."""
    rows = trainable(delivery.view)
    stale = ack_of(delivery.view, rows, 1).model_copy(update={"epoch": delivery.epoch - 1})
    try:
        await SyncClient.ack(sync, delivery.view.run, delivery.view.role, stale)
    except LeaseLost:
        accepted = False
    except TandemError:
        return
    else:
        accepted = True
    sync.ledger.record({"write": "zombie", "accepted": accepted, "step": delivery.step, "epoch": stale.epoch})


def owned(view: DeliveryView) -> dict[str, str]:
    """The trajectories of a delivery that its role owns, each with its state."""
    rollouts = [rollout for group in view.groups for rollout in group.rollouts]
    if view.role == "planner":
        return {rollout.planner_trajectory: "scored" for rollout in rollouts if rollout.planner_trajectory}
    return {row.id: row.state for rollout in rollouts for row in rollout.executor_trajectories}


def trainable(view: DeliveryView) -> dict[str, int]:
    """The rows that are trained on, each with its multiplicity."""
    return {id: 1 + int(3 * chance(id, "copies")) for id, state in owned(view).items() if state == "scored"}


def ack_of(view: DeliveryView, rows: dict[str, int], updates: int) -> Ack:
    """The ack of a step that trained on `rows`."""
    fates = {id: rows.get(id, state) for id, state in owned(view).items()}
    return Ack(
        epoch=view.epoch,
        step=view.step,
        outcome="trained" if rows else "skipped",
        reason=None if rows else "empty-batch",
        updates=updates,
        fates=fates,
    )
