"""The planner's training loop. The order in a step: update, checkpoint if due, ack, load into the sampler, publish.

The last two go on in the background, beside the next lease, batch and gradient; the next optimiser step waits for them.
"""

import asyncio
from collections.abc import Callable, Mapping

from planner_server.batch import planner_batch
from shared.policy.policy import Policy
from shared.schemas.run import RunSpec
from shared.schemas.stream import DeliveryView
from shared.serving.member import Member
from shared.serving.saver import Saver
from shared.stream import Stream


async def train(
    policy: Policy,
    stream: Stream,
    spec: RunSpec,
    member: Member,
    *,
    checkpoint_every: int,
    accuracies: Callable[[], Mapping[str, float]],
) -> None:
    """Train every batch of the run into the planner once.

    Consumes the planner's deliveries; waits for the next one, which is ready when all groups of its step are closed;
    is unblocked by the rollout loop; produces acks, checkpoints and versions. Ends with the run. `accuracies` of
    evaluations that ended meanwhile go into a step's statistics.
    """
    saver = Saver(policy, member.run, spec, every=checkpoint_every)
    await policy.schedule(spec.steps)
    member.doing["trainer"] = "waiting for a batch"
    async with asyncio.TaskGroup() as background:
        async for delivery in stream.deliveries():
            async with delivery:
                member.doing["trainer"] = f"training step {delivery.step}"
                stored = await policy.store.get_whole(_trajectories(delivery.view))
                batch = planner_batch(delivery.view, stored, spec, policy.updates)
                result = await policy.update(batch.rows, delivery.step, guard=delivery.may_step)
                batch.statistics |= accuracies()
                ack = batch.ack(delivery.epoch, delivery.step, result)
                await saver.save_if_due(ack)
                await delivery.ack(ack)  # refused: nothing below runs, and the stream resumes from the last checkpoint
                if not result.skipped:
                    delivery.confirm(result.updates, background)
            member.doing["trainer"] = f"waiting for the batch of step {delivery.step + 1}"
    await saver.save_last()
    member.doing["trainer"] = "finished"


def _trajectories(delivery: DeliveryView) -> list[str]:
    rollouts = (rollout for group in delivery.groups for rollout in group.rollouts)
    return [rollout.planner_trajectory for rollout in rollouts if rollout.planner_trajectory is not None]
