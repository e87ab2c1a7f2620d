"""The executor's training loop. The order in a step: update, checkpoint if due, ack, load into the sampler, publish.

The last two go on in the background, beside the next lease, batch and gradient; the next optimiser step waits for them.
"""

import asyncio

from executor_server.batch import executor_batch
from shared.policy.policy import Policy
from shared.schemas.run import RunSpec
from shared.schemas.stream import DeliveryView
from shared.serving.member import Member
from shared.serving.saver import Saver
from shared.stream import Stream


async def train(policy: Policy, stream: Stream, spec: RunSpec, member: Member, *, checkpoint_every: int) -> None:
    """Train every batch of the run into the executor once.

    Consumes the executor's deliveries; waits for the next one, which is ready when all groups of its step are sealed;
    is unblocked by the planner's rollouts and our own scores; produces acks, checkpoints, versions. Ends with the run.
    """
    saver = Saver(policy, member.run, spec, every=checkpoint_every)
    await policy.schedule(spec.steps)
    member.doing["trainer"] = "waiting for a batch"
    async with asyncio.TaskGroup() as background:
        async for delivery in stream.deliveries():
            async with delivery:
                member.doing["trainer"] = f"training step {delivery.step}"
                stored = await policy.store.get(_trajectories(delivery.view))
                batch = executor_batch(delivery.view, stored, spec, policy.updates)
                result = await policy.update(batch.rows, delivery.step, guard=delivery.may_step)
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
    return [trajectory.id for rollout in rollouts for trajectory in rollout.executor_trajectories]
