"""The executor's side of the load: the scores of every step that may be open, often before their rollouts.

Consumes the horizon; waits for it to rise; produces scores; ends with the run, when all that it owes is answered.
"""

import asyncio

from tests.faults import plan
from tests.faults.plan import SPEC
from tests.faults.planner_load import open_steps
from tests.faults.recording import RecordingClient

ROLLOUT_S = 0.05
"""How long the scores wait that come after their rollouts."""


async def score(client: RecordingClient, run: str) -> None:
    """Every step from the first one that is not acked by both."""
    async with asyncio.TaskGroup() as owed:
        async for step in open_steps(client, run):
            for index in range(SPEC.groups_per_step):
                owed.create_task(_submit(client, run, step, index))


async def _submit(client: RecordingClient, run: str, step: int, index: int) -> None:
    if plan.chance(run, step, index, "early") > plan.EARLY_SCORES:
        await asyncio.sleep(ROLLOUT_S)
    items = [item for slot in range(SPEC.rollouts_per_group) for item in plan.scores(run, step, index, slot)]
    late = [item for item in items if plan.chance(item.id, "late") < plan.LATE_SCORE]
    timely = [item for item in items if item not in late]
    if plan.chance(run, step, index, "single") < plan.SINGLE:
        await asyncio.gather(*[client.put_trajectory(item) for item in timely])
        timely = []
    for part in (timely[::2], timely[1::2]):
        if part:
            await client.submit_trajectories(part)
    if late:
        await asyncio.sleep(SPEC.score_deadline_s + 1)
        await client.submit_trajectories(late)
