"""A role server's submitter as a process of its own, to be killed: `python spool_child.py STORE URL COUNT WHERE`.

It keeps COUNT new reports, prints their ids, and sends what the spool holds. WHERE `acknowledged` it dies as the answer
comes, before the spool knows; else it says `done` once everything is answered.
"""

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

from shared.client import SyncClient
from shared.ids import new_id
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion
from shared.schemas.rollout import TrajectoryItem, TrajectoryReport
from shared.serving.spool import Spool
from shared.serving.submitter import Submitter

VERSION = PolicyVersion(epoch=1, step=0, updates=0)


async def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(path: str, url: str, count: int, where: str) -> None:
    store = TrajectoryStore(Path(path), 2**24)
    if where == "acknowledged":
        Spool.acknowledged = die  # ty: ignore[invalid-assignment]
    async with SyncClient(url) as sync:
        submitter: Submitter[TrajectoryItem] = Submitter(sync.submit_trajectories, TrajectoryItem, store)
        await submitter.recover()
        for _ in range(count):
            report = TrajectoryReport(run="r", rollout=new_id(), r_format=0, tokens=2, version=VERSION)
            item = TrajectoryItem(id=new_id(), body=report)
            trajectory = Trajectory(item.id, "r", "executor", [1, 2], [0, 1], [0.0, -1.0], VERSION)
            await submitter.submit(item, partial(store.put, trajectory))
            print(item.id, flush=True)
        sending = asyncio.create_task(submitter.run())
        await submitter.flush(60)
        sending.cancel()
        print("done", flush=True)
    store.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
