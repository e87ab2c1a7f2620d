"""The two parts of a policy that run outside its server, and how both are started: at once, or neither.

A further kind of sampler or trainer is one more branch in `_sampler` or `_trainer`; `Policy` knows the protocols only.
"""

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shared.errors import UserError
from shared.policy.child import CALL_S, CLOSE_S, Child
from shared.policy.config import PolicyConfig
from shared.policy.sampler import TransformersSampler
from shared.policy.types import Sampler
from shared.policy.vllm.probe import Reference
from shared.policy.vllm.sampler import VllmSampler

if TYPE_CHECKING:
    from shared.policy.pool.start import RayPool


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

    @property
    def probes(self) -> bool:
        """Whether `load_weights` asks the trainer for its log-probs."""
        ...

    async def statistics(self) -> dict[str, Any]:
        """Counts since the start, of its own."""
        ...


async def start_processes(
    config: PolicyConfig, store: Path, logs: Path, total_steps: int | None, train: bool
) -> tuple[SamplerProcess, TrainerProcess | None]:
    """Start both at once: importing torch takes seconds. Where one cannot start, neither stays."""
    threads = config.threads or max(1, cores() // (2 if train else 1))
    pool = await _pool(config, train)
    started: list[Process] = []
    try:
        trainer = await _trainer(config, store, logs, total_steps, threads, pool) if train else None
        started += [trainer] if trainer else []
        sampler = await _sampler(config, store.parent, logs, threads, pool)
        started.append(sampler)
        await asyncio.gather(*(process.ready() for process in started))
    except BaseException:
        await asyncio.gather(*(process.close(0) for process in started))
        raise
    finally:
        if pool:
            await pool.release()
    if trainer and isinstance(sampler, VllmSampler):
        sampler.reference = _reference(trainer)
    return sampler, trainer


async def _pool(config: PolicyConfig, train: bool) -> "RayPool | None":
    if config.pool.kind == "local":
        return None
    if find_spec("ray") is None:
        raise UserError("policy.pool.kind 'ray' needs the extra `ray`: pip install 'tandem-cotrain[ray]'")
    from shared.policy.pool.start import RayPool  # Ray is imported only where it is asked for

    return await RayPool.open(config, train)


async def _sampler(
    config: PolicyConfig, folder: Path, logs: Path, threads: int, pool: "RayPool | None"
) -> SamplerProcess:
    if config.vllm:
        return await VllmSampler.spawn(config, config.vllm, folder / "vllm", logs, threads)
    if pool:
        return pool.sampler(folder / "replicas", logs)
    return await TransformersSampler.spawn(config, logs / "sampler.log", threads)


async def _trainer(
    config: PolicyConfig, store: Path, logs: Path, total_steps: int | None, threads: int, pool: "RayPool | None"
) -> TrainerProcess:
    if pool:
        return await pool.trainer(store, logs, total_steps)
    return await Child.spawn("trainer", trainer_settings(config, store, total_steps), logs / "trainer.log", threads)


def trainer_settings(config: PolicyConfig, store: Path, total_steps: int | None) -> dict[str, Any]:
    """What a trainer's process is told at its start."""
    settings = config.model_dump(mode="json", include={"model", "device", "dtype", "temperature", "trainer"})
    return settings | {"store": str(store), "total_steps": total_steps}


def _reference(trainer: TrainerProcess) -> Reference:
    """The trainer's log-probs, with which a sampler that has other code for the same model compares its own."""

    async def logprobs(token_ids: list[int], first: int) -> list[float]:
        return await trainer.call("logprobs", {"token_ids": token_ids, "first": first})

    return logprobs


def cores() -> int:
    """The cores that this process may use; containers and taskset narrow it, where the platform tells."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
