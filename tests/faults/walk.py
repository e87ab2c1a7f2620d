"""One run from its first group to its last ack, with ids that belong to the place: two walks leave the same tables."""

from collections.abc import Awaitable, Callable
from typing import Any

from shared.client import SyncClient
from shared.schemas import ROLES
from shared.schemas.run import RunSpec
from tests.faults import plan
from tests.integration.sync.builder import Builder, Trainer

RUN = "walk"
SPEC = RunSpec(steps=3, rollouts_per_group=plan.SPEC.rollouts_per_group, groups_per_step=2, staleness=0)
WAIT_S = 20.0

Disturb = Callable[[], Awaitable[None]]


async def walk(client: SyncClient, disturb: Disturb) -> None:
    """Every step by both roles; `disturb` strikes once a step, while a trainer waits."""
    await client.declare_run(RUN, SPEC)
    trainers = {role: Trainer(client, RUN, role, f"{role}-1") for role in ROLES}
    for trainer in trainers.values():
        await trainer.resume()
        await trainer.confirm(0)
    for step in range(1, SPEC.steps + 1):
        await client.status(RUN, open_step=step, wait_s=WAIT_S)
        for index in range(SPEC.groups_per_step):
            await client.open_group(*plan.group(RUN, step, index))
        await disturb()
        slots = [(step, index, slot) for index in range(SPEC.groups_per_step) for slot in range(4)]
        await client.submit_rollouts([plan.rollout(RUN, *slot) for slot in slots])
        await client.submit_trajectories([score for slot in slots for score in plan.scores(RUN, *slot)])
        for role in ROLES:
            delivery = await trainers[role].delivery(wait_s=WAIT_S)
            assert delivery.step == step
            ack = trainers[role].ack_of(delivery, drop=_untrainable(delivery))
            await client.ack(RUN, role, ack)
            await trainers[role].confirm(step)


def _untrainable(delivery: Any) -> list[str]:
    rows = [row for group in delivery.groups for rollout in group.rollouts for row in rollout.executor_trajectories]
    return [row.id for row in rows if row.state != "scored"]


TABLES = {
    "runs": "SELECT run, state FROM runs",
    "groups": "SELECT id, step, index, state, scoring, final, reported FROM groups",
    "rollouts": "SELECT id, group_id, slot, state, r_correct, multiplicity, fate_reason FROM rollouts",
    "trajectories": "SELECT id, rollout_id, batch_step, state, reason, r_expert, multiplicity FROM trajectories",
    "deliveries": "SELECT role, step, state, outcome, epoch, attempts FROM deliveries",
    "streams": "SELECT role, epoch, worker, acked_step, live_step FROM streams",
    "policies": "SELECT role, epoch, step, checksum, superseded FROM policies",
}


async def tables(build: Builder) -> dict[str, list[str]]:
    """All that must not depend on how it came about, as sorted text."""
    return {name: sorted(map(str, await build.sql(statement))) for name, statement in TABLES.items()}
