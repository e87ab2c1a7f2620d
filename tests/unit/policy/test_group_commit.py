"""A caller that goes away while it waits for its commit disturbs nobody."""

import asyncio
from pathlib import Path

from shared.policy.store import TrajectoryStore


async def test_cancelled_writes_are_left_out_and_the_next_one_is_written(tmp_path: Path, make_trajectory):
    store = TrajectoryStore(tmp_path / "t.sqlite", 2**24)
    try:
        for _ in range(20):
            waiting = [asyncio.create_task(store.put(make_trajectory())) for _ in range(20)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
        kept = make_trajectory()
        async with asyncio.timeout(10):
            await store.put(kept)
        assert set(await store.get([kept.id])) == {kept.id}
    finally:
        store.close()
