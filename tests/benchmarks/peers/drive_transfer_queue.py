"""TransferQueue, in memory, in bulk: `python drive_transfer_queue.py STEPS ROLLOUTS CLIENTS`, where it is installed.

A client puts the scores of a whole step in one call for the planner and one for the executor; the consumer gets
both and clears them, as a trainer does. The last line is the number of rollouts a second.
"""

import asyncio
import sys
import time

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict

CALLS = 4


def scores(rows: int) -> TensorDict:
    names = ("r_format", "r_score", "tokens", "epoch", "step")
    return TensorDict({name: torch.rand(rows, 1) for name in names}, batch_size=rows)


async def drive(steps: int, rollouts: int, clients: int) -> float:
    done: asyncio.Queue[int] = asyncio.Queue()
    left = iter(range(steps))

    def keys(step: int, role: str, rows: int) -> list[str]:
        return [f"{step}-{role}-{row}" for row in range(rows)]

    async def produce() -> None:
        for step in left:
            for role, rows in (("planner", rollouts), ("executor", rollouts * CALLS)):
                await tq.async_kv_batch_put(keys(step, role, rows), role, scores(rows))
            await done.put(step)

    async def consume() -> None:
        for _ in range(steps):
            step = await done.get()
            for role, rows in (("planner", rollouts), ("executor", rollouts * CALLS)):
                names = keys(step, role, rows)
                found = await tq.async_kv_batch_get(names, role)
                assert len(found) == rows
                await tq.async_kv_clear(names, role)

    started = time.monotonic()
    await asyncio.gather(consume(), *(produce() for _ in range(clients)))
    return steps * rollouts / (time.monotonic() - started)


def main() -> None:
    steps, rollouts, clients = map(int, sys.argv[1:])
    ray.init(num_cpus=6, include_dashboard=False, log_to_driver=False)  # with 2 it hangs
    tq.init()
    rate = asyncio.run(drive(steps, rollouts, clients))
    tq.close()
    ray.shutdown()
    print(rate)


if __name__ == "__main__":
    main()
