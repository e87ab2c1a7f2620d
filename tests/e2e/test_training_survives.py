"""Exactly once, as the weights see it: killed again and again, a run ends with the very bits of one never killed."""

import asyncio
from pathlib import Path

from shared.schemas import Role
from sync_service.embedded import Services
from tests.e2e.survival.orders import MOMENTS, orders
from tests.e2e.survival.run import database_of_its_own, train
from tests.e2e.survival.verdict import check

KILLS = {"sync service": 6, "trainer": 2, "server": 2}
KILL_SEED = 787
"""One whose restarts, each of which imports torch twice, are at the moments that exactly once is about."""
ROLE: Role = "executor"


async def test_ten_kills_change_no_bit_of_the_weights(services: Services, tmp_path: Path):
    kills = orders(KILL_SEED, KILLS)
    assert {order.moment for order in kills} == set(MOMENTS)
    restarts = {order.moment for order in kills if order.victim != "sync service"}
    assert restarts == {"before-update", "after-update", "before-ack", "after-ack"}
    databases = {name: database_of_its_own(services.database_url, name) for name in ("never", "killed")}
    async with asyncio.TaskGroup() as runs:
        never = runs.create_task(train(tmp_path / "never", databases["never"], {ROLE: ()}))
        killed = runs.create_task(train(tmp_path / "killed", databases["killed"], {ROLE: kills}))
    (status, before), (after_status, after) = never.result(), killed.result()
    check(before[ROLE], after[ROLE])
    assert len(after[ROLE].updates) > len(before[ROLE].updates), "no batch was trained anew: nothing was tried"
    assert after_status.trajectories == status.trajectories
