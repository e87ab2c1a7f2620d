"""The consumer: trainers that train nothing. They lease, ack and confirm step after step, and note when they held each.

It is a process of its own: `python -m tests.benchmarks.sync.consume`, driven by `worker.py`.
"""

import asyncio
import hashlib
import time

from tests.benchmarks.sync.wire import Wire
from tests.benchmarks.sync.worker import serve

ROLES = ("planner", "executor")


async def consume(
    url: str, keys: dict[str, str | None], firsts: dict[str, int], steps: int, confirm: bool
) -> dict[str, dict[str, list[float]]]:
    """Both roles of each run, for so many steps from its first: the moments in which each held its steps, and at the
    end that of its last ack (`time.monotonic`, which the processes of a machine share).

    Without `confirm` only the last version is confirmed, after that.
    """
    streams = [(run, role) for run in firsts for role in ROLES]
    async with asyncio.TaskGroup() as tasks:
        held = [
            tasks.create_task(_stream(url, keys[role], run, role, range(firsts[run], firsts[run] + steps), confirm))
            for run, role in streams
        ]
    found: dict[str, dict[str, list[float]]] = {}
    for (run, role), task in zip(streams, held, strict=True):
        found.setdefault(run, {})[role] = task.result()
    return found


async def _stream(url: str, key: str | None, run: str, role: str, steps: range, confirm: bool) -> list[float]:
    path, worker, held = f"/v1/runs/{run}/streams/{role}", f"bench-{role}", []
    async with Wire(url, key, 1) as wire:
        before = steps[0] - 1
        resume = {"worker": worker, "step": before, "updates": before, "checksum": checksum(role, before)}
        epoch = (await wire.call("POST", f"{path}:resume", resume))["epoch"]

        async def publish(step: int) -> None:
            version = {"worker": worker, "updates": step, "checksum": checksum(role, step)}
            await wire.call("PUT", f"/v1/runs/{run}/policies/{role}/{epoch}.{step}", version)

        while len(held) < len(steps):
            lease = {"worker": worker, "epoch": epoch, "wait_s": 20.0}
            delivery = (await wire.call("POST", f"{path}:lease", lease))["delivery"]
            if delivery is None:
                continue
            held.append(time.monotonic())
            await wire.call("POST", f"{path}:ack", _ack(delivery, role, epoch))
            if confirm:
                await publish(delivery["step"])
        held.append(time.monotonic())
        if not confirm:
            await publish(steps[-1])
        return held


def checksum(role: str, step: int) -> str:
    """A checksum that stands for the weights of a step."""
    return hashlib.sha256(f"{role} {step}".encode()).hexdigest()


def _ack(delivery: dict, role: str, epoch: int) -> dict:
    rollouts = [rollout for group in delivery["groups"] for rollout in group["rollouts"]]
    if role == "planner":
        owned = [rollout["planner_trajectory"] for rollout in rollouts]
    else:
        owned = [trajectory["id"] for rollout in rollouts for trajectory in rollout["executor_trajectories"]]
    step = delivery["step"]
    return {"epoch": epoch, "step": step, "outcome": "trained", "updates": step, "fates": dict.fromkeys(owned, 1)}


if __name__ == "__main__":
    serve({"consume": consume})
