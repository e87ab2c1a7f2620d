"""The two parts of a policy that run outside its server, and how both are started: at once, or neither.

A further kind of sampler or trainer is one more branch in `_sampler` or `_trainer`; `Policy` knows the protocols only.
"""

import asyncio
import os
from pathlib import Path
from typing import Any, Protocol

from shared.policy.child import CALL_S, CLOSE_S, Child
from shared.policy.config import PolicyConfig
from shared.policy.sampler import TransformersSampler
from shared.policy.types import Sampler


class Process(Protocol):
    """What runs outside the server, in one process or in many; `info` is told once it is ready."""

    @property
    def info(self) -> dict[str, Any]:
        """Device, threads and number of parameters."""
        ...

    async def ready(self) -> None:
        """Wait until its model is loaded; raises its own UserError, or Unavailable if it ended."""
        ...

    async def died(self) -> str:
        """Wait for its end, and say why. Does not return after `close`."""
        ...

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Let it end by itself, within the bound; then kill it. 0 kills it at once."""
        ...


class TrainerProcess(Process, Protocol):
    """Answers the methods of `trainer_child.TrainerService`, one after another."""

    async def call(self, method: str, arguments: dict[str, Any] | None = None, timeout_s: float = CALL_S) -> Any:
        """Ask it; raises the error that it answers with, or Unavailable where it dies first."""
        ...


class SamplerProcess(Process, Sampler, Protocol):
    """A sampler with its counters: turns asked for and not answered, turns that were, the tokens sampled for them."""

    waiting: int
    turns: int
    tokens: int

    async def statistics(self) -> dict[str, Any]:
        """Counts since the start, of its own."""
        ...


async def start_processes(
    config: PolicyConfig, store: Path, logs: Path, total_steps: int | None, train: bool
) -> tuple[SamplerProcess, TrainerProcess | None]:
    """Start both at once: importing torch takes seconds. Where one cannot start, neither stays."""
    threads = config.threads or max(1, _cores() // (2 if train else 1))
    sampler = await _sampler(config, logs, threads)
    started: list[Process] = [sampler]
    try:
        trainer = await _trainer(config, store, logs, total_steps, threads) if train else None
        started += [trainer] if trainer else []
        await asyncio.gather(*(process.ready() for process in started))
    except BaseException:
        await asyncio.gather(*(process.close(0) for process in started))
        raise
    return sampler, trainer


async def _sampler(config: PolicyConfig, logs: Path, threads: int) -> SamplerProcess:
    return await TransformersSampler.spawn(config, logs / "sampler.log", threads)


async def _trainer(
    config: PolicyConfig, store: Path, logs: Path, total_steps: int | None, threads: int
) -> TrainerProcess:
    settings = config.model_dump(mode="json", include={"model", "device", "dtype", "temperature", "trainer"})
    settings |= {"store": str(store), "total_steps": total_steps}
    return await Child.spawn("trainer", settings, logs / "trainer.log", threads)


def _cores() -> int:
    """The cores that this process may use; containers and taskset narrow it, where the platform tells."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
