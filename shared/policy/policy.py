"""One role's policy: its sampler, its trainer, its trajectories and its checkpoints, on one machine.

Torch runs in processes of its own. The order of a step is the server's: update, save if due, ack, load_sampler.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shared.errors import Conflict, Unavailable, UserError
from shared.policy.checkpoints import Checkpoint, CheckpointStore
from shared.policy.config import PolicyConfig
from shared.policy.folder import check_model_folder
from shared.policy.processes import Process, SamplerProcess, TrainerProcess, start_processes
from shared.policy.store import TrajectoryStore
from shared.policy.types import StepAbandoned, TrainRow
from shared.schemas.base import PolicyVersion, Role
from shared.schemas.stream import Ack


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """`updates`: optimiser steps behind the weights now; `skipped`: no row was live, so there was none."""

    updates: int
    statistics: dict[str, float]
    skipped: bool = False


class Policy:
    """`step` is the last step in the trainer's weights, `updates` the number of optimiser steps behind them."""

    def __init__(
        self,
        sampler: SamplerProcess,
        trainer: TrainerProcess | None,
        store: TrajectoryStore,
        checkpoints: CheckpointStore,
        scratch: Path,
    ) -> None:
        self.sampler, self.store, self.checkpoints = sampler, store, checkpoints
        self.step = self.updates = 0
        self._trainer = trainer
        self._scratch = scratch
        self._trainer_turn = asyncio.Lock()
        """A gradient takes long; a sampler that probes the trainer's log-probs of what it loads has it before one."""
        self._applying: asyncio.Task[dict[str, float]] | None = None

    @classmethod
    async def start(
        cls,
        config: PolicyConfig,
        folder: Path,
        run: str,
        role: Role,
        total_steps: int | None,
        resume: bool,
        *,
        train: bool = True,
        logs: Path | None = None,
    ) -> "Policy":
        """Start the processes; with `resume`, on the latest checkpoint where there is one.

        The sampler holds that checkpoint's weights, or the initial ones, until `load_sampler`. `total_steps` None: the
        run is not declared yet, and `schedule` comes before the first update. `train` False: no trainer is started.
        `logs`: where the processes' logs go, if not to `folder`/logs. UserError: a model that cannot be loaded,
        checkpoints that a fresh run would overwrite.
        """
        check_model_folder(config.model)
        checkpoints = CheckpointStore(folder / "checkpoints", config.model, run, role, config.checkpoints.keep_last)
        latest = checkpoints.latest()
        if latest and not resume:
            raise UserError(f"{checkpoints.folder} already holds {latest.name}: resume the run, or use another folder")
        shutil.rmtree(folder / "scratch", ignore_errors=True)  # weights on their way when the last process was killed
        file = folder / "trajectories.sqlite"
        if file.exists():  # the same draws again would repeat, in what a group is still owed, what it has
            config = config.model_copy(update={"seed": None})
        store = TrajectoryStore(file, config.store.max_bytes)
        try:
            sampler, trainer = await start_processes(config, store.path, logs or folder / "logs", total_steps, train)
        except BaseException:
            store.close()
            raise
        policy = cls(sampler, trainer, store, checkpoints, folder / "scratch")
        if latest and trainer:
            try:
                await policy.restore(latest)
                await sampler.load_weights(latest.path, latest.version)  # the initial ones are long left behind
            except BaseException:
                await policy.close()
                raise
        return policy

    @property
    def info(self) -> dict[str, Any]:
        """The sampler's device, threads and number of parameters; the trainer's `memory` plan, in bytes."""
        memory = self._trainer.info.get("memory") if self._trainer else None
        return self.sampler.info | ({"memory": memory} if memory else {})

    async def update(self, rows: Sequence[TrainRow], step: int, guard: Callable[[], Awaitable[bool]]) -> UpdateResult:
        """One optimiser step on the batch; `guard` is asked right before it, and False raises StepAbandoned.

        NotFound or InvalidInput name a trajectory that is missing or cannot be trained on; the weights are unchanged.
        """
        trainer = self._needs_trainer()
        arguments = {"rows": [asdict(row) for row in rows], "step": step}
        async with self._trainer_turn:
            statistics = await trainer.call("accumulate", arguments)
        if statistics is None:
            self.step = step
            return UpdateResult(self.updates, {"rows": 0, "dead_rows": len(rows)}, skipped=True)
        if not await guard():
            await trainer.call("discard")
            raise StepAbandoned(f"step {step} was given up before its optimiser step")
        self._applying = asyncio.create_task(self._apply(trainer, step))
        applied = await asyncio.shield(self._applying)  # a cancelled caller must not leave `updates` behind the weights
        seconds = statistics["seconds"] + applied["seconds"]
        rates = {"seconds": seconds, "tokens_per_second": statistics["tokens"] / seconds}
        return UpdateResult(self.updates, statistics | applied | rates)

    async def save(self, step: int, pending_ack: Ack) -> Checkpoint:
        """Checkpoint the trainer's weights and optimiser; on disk when it returns, and older ones are retired."""
        trainer = self._needs_trainer()

        async def write(folder: Path) -> str:
            return await trainer.call("save", {"folder": str(folder)})

        return await self.checkpoints.save(step, self.updates, pending_ack, write)

    async def schedule(self, total_steps: int) -> None:
        """The run has that many steps, over which the learning rate falls; known once the run is declared."""
        await self._needs_trainer().call("schedule", {"total_steps": total_steps})

    def latest(self) -> Checkpoint | None:
        """The checkpoint to resume from."""
        return self.checkpoints.latest()

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Put the trainer back on a checkpoint, or (None) on the initial model with a fresh optimiser."""
        arguments = {"folder": None, "checksum": None}
        if checkpoint:
            arguments = {"folder": str(checkpoint.path), "checksum": checkpoint.checksum}
        await self._needs_trainer().call("restore", arguments)
        self.step, self.updates = (checkpoint.step, checkpoint.updates) if checkpoint else (0, 0)

    async def checksum(self) -> str:
        """The checksum of the trainer's weights, as `load_sampler` confirms it."""
        folder = self._scratch / "checksum"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return await self._needs_trainer().call("export", {"folder": str(folder)})
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def load_sampler(self, version: PolicyVersion) -> str:
        """Hand the trainer's weights to the sampler; returns their checksum once it samples from them.

        The sampler confirms by the checksum of what it read; another than was written is Conflict.
        """
        trainer = self._needs_trainer()
        folder = self._scratch / f"{version.epoch}.{version.step}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            async with self._trainer_turn if self.sampler.probes else nullcontext():
                written = await trainer.call("export", {"folder": str(folder)})
                loaded = await self.sampler.load_weights(folder, version)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if loaded != written:
            raise Conflict(f"the sampler loaded weights with checksum {loaded}, the trainer wrote {written}")
        return loaded

    async def logprobs(self, token_ids: Sequence[int], first: int) -> list[float]:
        """The trainer's log-probs of the tokens from place `first` on, under the weights that it holds now."""
        return await self._needs_trainer().call("logprobs", {"token_ids": list(token_ids), "first": first})

    def keep(self, name: str) -> None:
        """Mark a checkpoint `best`: retention spares it."""
        self.checkpoints.keep(name)

    async def failed(self) -> str:
        """Wait until one of the processes dies; returns why, with the last lines of its log."""
        deaths = [asyncio.create_task(process.died()) for process in self._processes()]
        try:
            done, _ = await asyncio.wait(deaths, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for death in deaths:
                death.cancel()

    async def close(self) -> None:
        """End the processes within a bound, and write what the store still holds."""
        await asyncio.gather(*(process.close() for process in self._processes()))
        await asyncio.to_thread(self.store.close)

    async def _apply(self, trainer: TrainerProcess, step: int) -> dict[str, float]:
        applied = await trainer.call("apply", {"step": step})
        self.step, self.updates = step, self.updates + 1
        return applied

    def _processes(self) -> list[Process]:
        return [self.sampler, *([self._trainer] if self._trainer else [])]

    def _needs_trainer(self) -> TrainerProcess:
        if self._trainer is None:
            raise Unavailable("this role does not train in this run: it was started without a trainer")
        return self._trainer
