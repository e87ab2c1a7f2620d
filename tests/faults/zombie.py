"""A trainer that is stopped in its step and does not know: `python -m tests.faults.zombie URL RUN`.

It leases a step of the planner's stream, says so, and acks it when it is told to. Its renewals go on beside, as a real
trainer's do; while the process is stopped (SIGSTOP) nothing goes on.
"""

import asyncio
import contextlib
import sys

from shared.client import SyncClient
from shared.errors import TandemError
from tests.faults.trainer import ack_of, trainable
from tests.integration.sync.builder import Trainer

RENEW_S = 0.2


async def main(url: str, run: str) -> None:
    """Lease, wait for a line, ack; say what the answers were."""
    async with SyncClient(url, retry_for_s=5) as client:
        trainer = Trainer(client, run, "planner", "zombie")
        await trainer.resume()
        delivery = await trainer.delivery(wait_s=10)
        renewals = asyncio.create_task(_renew(trainer))
        print("leased", delivery.step, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await client.ack(run, "planner", ack_of(delivery, trainable(delivery), 1))
        except TandemError as error:
            print(error.type, flush=True)
        else:
            print("accepted", flush=True)
        renewals.cancel()


async def _renew(trainer: Trainer) -> None:
    with contextlib.suppress(TandemError):
        while True:
            await trainer.renew()
            await asyncio.sleep(RENEW_S)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
