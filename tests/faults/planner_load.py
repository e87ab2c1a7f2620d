"""The planner's side of the load: groups as soon as they may be opened, then their rollouts, each a request or several.

Consumes the horizon; waits for it to rise; produces groups and rollouts; ends when the run opens nothing more and
everything that it owes is answered.
"""

import asyncio

from shared.errors import InvalidTransition, StalenessBound
from shared.schemas.run import RunStatus
from tests.faults import plan
from tests.faults.plan import SPEC
from tests.faults.recording import RecordingClient

WAIT_S = 2.0
PACE_S = 0.15
"""Between the steps of a run: what is killed must find the processor to come back, beside all that goes on."""


async def roll(client: RecordingClient, run: str) -> None:
    """Every step from the first one that is not acked by both."""
    async with asyncio.TaskGroup() as owed:
        async for step in open_steps(client, run):
            opened = await asyncio.gather(*[_open(client, run, step, n) for n in range(SPEC.groups_per_step)])
            for index in (index for index, is_open in enumerate(opened) if is_open):
                owed.create_task(_report(client, run, step, index))
            await asyncio.sleep(PACE_S)


async def open_steps(client: RecordingClient, run: str):
    """The steps whose groups may be open now, then each one as it may be opened, until the run opens no more."""
    status = await client.status(run)
    step = 1 + min(role.acked_step for role in status.roles.values())
    while not _over(status, step):
        if step <= status.open_through:
            yield step
            step += 1
        status = await client.status(run, open_step=step, wait_s=WAIT_S)


def _over(status: RunStatus, step: int) -> bool:
    return status.state in ("finished", "failed") or (status.state == "draining" and step > status.open_through)


async def _open(client: RecordingClient, run: str, step: int, index: int) -> bool:
    """Whether the group is open: a trainer that goes back lowers the horizon meanwhile, a drain ends it."""
    while True:
        try:
            await client.open_group(*plan.group(run, step, index))
        except StalenessBound:
            await client.status(run, open_step=step, wait_s=WAIT_S)
        except InvalidTransition:
            return False
        else:
            return True


async def _report(client: RecordingClient, run: str, step: int, index: int) -> None:
    """The slots of one group, in two requests or each in its own; those that are late on purpose when it is closed."""
    items = [plan.rollout(run, step, index, slot) for slot in range(SPEC.rollouts_per_group)]
    late = [item for item in items if plan.chance(item.id, "late") < plan.LATE_SLOT]
    timely = [item for item in items if item not in late]
    if plan.chance(run, step, index, "single") < plan.SINGLE:
        await asyncio.gather(*[client.put_rollout(item) for item in timely])
        timely = []
    cut = int(plan.chance(run, step, index, "cut") * (len(timely) + 1))
    for part in (timely[:cut], timely[cut:]):
        if part:
            await client.submit_rollouts(part)
    if late:
        await asyncio.sleep(SPEC.rollout_deadline_s + 1)
        await client.submit_rollouts(late)
