"""One shard of a trainer: the trainer's process, with its model spread over all shards.

Every shard gets the same calls in the same order. They meet in collectives, each of which has a deadline: where a shard
is dead or stuck, the others raise, and end.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel

from shared.config import parse
from shared.errors import Unavailable
from shared.mgrpo.objective import merge
from shared.policy.batches import Example, MicroBatch, join
from shared.policy.child import START_S
from shared.policy.config import TrainerConfig
from shared.policy.folder import OPTIMIZER_FILE
from shared.policy.memory import MemoryPlan, device_memory, plan_memory
from shared.policy.model import load_model, resolve_device
from shared.policy.optimizer import load_optimizer_state, optimizer_state
from shared.policy.pool.balance import share
from shared.policy.pool.head import check_head, trained_logprobs
from shared.policy.pool.memory import gathered_bytes, plan_of_shard
from shared.policy.pool.sharding import clip, group_of, overwrite, portion, shard, untied, whole, zero_frozen
from shared.policy.trainer_child import TrainerService
from shared.policy.training import Trainer
from shared.policy.types import TrainRow, Trajectory
from shared.policy.weights import FILE, ONE_FILE, file_checksum, read_weights
from shared.schemas.base import PolicyVersion

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
TIMED_OUT = "Timed out waiting"
"""What gloo says of a collective that the others have not joined; NCCL ends the process."""


class ShardTrainer(Trainer):
    """Runs this shard's micro-batches of a batch that every shard is given whole."""

    def _share(self, parts: list[list[Example]]) -> list[list[Example]]:
        return share(parts, distributed.get_rank(), distributed.get_world_size())

    def _total(self, loss: float, sums: dict[str, float]) -> tuple[float, dict[str, float]]:
        """The same on every shard, so that a loss that is not finite on one abandons the step on all."""
        keys = sorted(sums)
        mine = torch.tensor([loss, *(sums[key] for key in keys)], dtype=torch.float64, device=self.model.device)
        rows = [torch.empty_like(mine) for _ in range(distributed.get_world_size())]
        distributed.all_gather(rows, mine, group=group_of(self.model))
        total, merged = 0.0, {}
        for part, *values in (row.tolist() for row in rows):
            total += part
            merged = merge(merged, dict(zip(keys, values, strict=True)))
        return total, merged

    def _logprobs(self, model: PreTrainedModel, batch: MicroBatch) -> Tensor:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self._autocast):
            picked = trained_logprobs(model, batch.tokens, batch.mask, self._temperature)
        if isinstance(model, FSDPModule) and not torch.is_grad_enabled():
            model.reshard()  # no backward pass will, and what is not sharded is not what the optimiser knows
        return picked

    def _bound_gradient(self) -> float:
        zero_frozen(self.model)
        return clip(self.model, self.config.max_grad_norm)


class ShardService(TrainerService):
    """Serves what a trainer serves. `settings` also name the `rank`, the number of `shards`, where they meet
    (`rendezvous`, a tcp:// address at rank 0) and the longest that one may wait for the others (`collective_s`).
    """

    trainer = ShardTrainer

    def __init__(self, settings: dict[str, Any]) -> None:
        device = resolve_device(settings["device"])
        if device.type == "cuda":
            torch.cuda.set_device(device)
        distributed.init_process_group(
            BACKENDS[device.type],
            init_method=settings["rendezvous"],
            rank=settings["rank"],
            world_size=settings["shards"],
            timeout=timedelta(seconds=START_S),
        )
        self._rank: int = settings["rank"]
        self._collective_s: float = settings["collective_s"]
        group = distributed.new_group(timeout=timedelta(seconds=self._collective_s))  # the start may take longer
        self._mesh = DeviceMesh.from_group(group, device.type)
        self._config = parse(TrainerConfig, settings["trainer"])
        self._half = settings["dtype"] == "bfloat16"
        self._whole: MemoryPlan | None = None
        self._gathered = 0
        super().__init__(settings)

    def _load(self, folder: Path, device: torch.device) -> PreTrainedModel:
        """On the CPU first: a device never holds a whole model."""
        model = load_model(folder, torch.device("cpu"))
        check_head(model)
        if self._whole is None:  # a reference comes second
            self._whole = self._measure(model)
        return shard(model, self._mesh)

    def _measure(self, model: PreTrainedModel) -> MemoryPlan:
        """Before it is sharded: what a layer keeps for its backward pass is the same after."""

        def logprobs(batch: MicroBatch) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=self._half):
                return trained_logprobs(model, batch.tokens, batch.mask, 1.0)

        self._gathered = gathered_bytes(model)
        return plan_memory(model, self._config, logprobs, model if self._config.objective.kl_coef else None)

    def _plan(self) -> MemoryPlan:
        assert self._whole is not None
        available = device_memory(self._trainer.model.device)
        return replace(plan_of_shard(self._whole, self._gathered, self._mesh.size()), available=available)

    def _answer(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return super()._answer(method, arguments)
        except RuntimeError as error:
            if TIMED_OUT not in str(error):
                raise
            setting = f"{self._collective_s:g} s (policy.pool.collective_timeout_s)"
            return {"error": Unavailable(f"shard {self._rank} waited for another for {setting}").problem()}

    def _accumulate(
        self, rows: list[dict[str, Any]], step: int, trajectories: Sequence[dict[str, Any]] = ()
    ) -> dict[str, float] | None:
        found = {row["id"]: Trajectory(version=PolicyVersion(**row.pop("version")), **row) for row in trajectories}
        return self._trainer.accumulate(join([TrainRow(**row) for row in rows], found), step)

    def _save(self, folder: str) -> str:
        state = whole(optimizer_state(self._trainer.model, self._trainer.optimizer), self._rank == 0)
        if self._rank == 0:
            save_file(state, Path(folder) / OPTIMIZER_FILE)
        return self._export(folder)

    def _export(self, folder: str) -> str:
        """Rank 0 writes, and answers with the checksum; the others only give it their slices."""
        model = self._trainer.model
        state = whole(untied(model), self._rank == 0)
        if self._rank:
            return ""
        model.save_pretrained(folder, state_dict=state, max_shard_size=ONE_FILE)
        return file_checksum(Path(folder) / FILE)

    def _take(self, weights: Path, state: dict[str, Tensor]) -> None:
        model, parameters = self._trainer.model, dict(self._trainer.model.named_parameters())
        overwrite(model, read_weights(model, weights))
        slices = {key: portion(tensor, parameters[key.partition(".")[2]]) for key, tensor in state.items()}
        load_optimizer_state(model, self._trainer.optimizer, slices)
