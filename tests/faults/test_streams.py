"""Two trainers for one stream: one holds it; the other waits, takes over when it is over, and fences the first one."""

import asyncio
import os
import signal
import sys

import pytest

from shared.errors import LeaseLost, StreamHeld
from tests.faults.servers import ROOT
from tests.integration.sync.builder import Builder, Trainer

TTL_S = 1.0


async def test_two_trainers_get_every_step_once_between_them(build: Builder) -> None:
    """Both go on as fast as they can, and take the stream from one another whenever they may."""
    await build.declare(steps=6, staleness=5, groups_per_step=1)
    for step in range(1, 7):
        await build.fill(step, calls=0)
    acked: list[int] = []

    async def train(trainer: Trainer) -> None:
        while len(acked) < 6:
            try:
                await trainer.resume(len(acked))
                delivery = await trainer.delivery()
                await trainer.ack(delivery)
                acked.append(delivery.step)
                await trainer.release()
            except (StreamHeld, LeaseLost):
                await asyncio.sleep(0)

    await asyncio.gather(*[train(build.trainer("planner", name)) for name in ("one", "two")])
    assert acked == [1, 2, 3, 4, 5, 6]


async def test_an_ack_of_an_epoch_that_is_over_is_refused(build: Builder) -> None:
    await build.declare()
    await build.fill(1, calls=0)
    zombie, heir = build.trainer("planner", "zombie"), build.trainer("planner", "heir")
    await zombie.resume()
    stale = zombie.ack_of(await zombie.delivery())
    await build.expire_lease("planner")
    await heir.resume()
    delivery = await heir.delivery()
    with pytest.raises(LeaseLost):
        await build.client.ack(build.run, "planner", stale)
    await heir.ack(delivery, skipped="all-dead")
    with pytest.raises(LeaseLost):
        await build.client.ack(build.run, "planner", stale)
    (step,) = await build.client.steps(build.run)
    assert (step.epoch, step.outcome) == (heir.epoch, "skipped")


async def test_a_trainer_that_was_stopped_cannot_ack_after_the_takeover(build: Builder, port: int) -> None:
    await build.declare(lease_ttl_s=TTL_S)
    await build.fill(1, calls=0)
    zombie = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.zombie", f"http://127.0.0.1:{port}", build.run),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert zombie.stdin is not None
    assert zombie.stdout is not None
    try:
        assert await zombie.stdout.readline() == b"leased 1\n"
        heir = build.trainer("planner", "heir")
        with pytest.raises(StreamHeld):
            await heir.resume()
        os.kill(zombie.pid, signal.SIGSTOP)
        await takeover(heir)
        delivery = await heir.delivery()
        os.kill(zombie.pid, signal.SIGCONT)
        zombie.stdin.write(b"\n")
        assert await zombie.stdout.readline() == b"lease-lost\n"
        await heir.ack(delivery)
    finally:
        os.kill(zombie.pid, signal.SIGKILL)
        await zombie.wait()
    assert [(step.step, step.epoch) for step in await build.client.steps(build.run)] == [(1, heir.epoch)]


async def takeover(heir: Trainer) -> None:
    """Ask for the stream until the lease of the one before is over."""
    async with asyncio.timeout(20 * TTL_S):
        while True:
            try:
                await heir.resume()
            except StreamHeld:
                await asyncio.sleep(0.1)
            else:
                return
