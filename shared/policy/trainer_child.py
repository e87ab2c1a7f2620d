"""The trainer's process: it reads a step's rows by id from the store's file, and answers with numbers only."""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from shared.config import parse
from shared.errors import TandemError, UserError
from shared.policy.adapters import adapter_state, check_base, load_adapter_state, merged_weights
from shared.policy.batches import join
from shared.policy.channel import Channel
from shared.policy.config import TrainerConfig
from shared.policy.folder import OPTIMIZER_FILE
from shared.policy.logprobs import check_head
from shared.policy.memory import MemoryPlan, fitting
from shared.policy.model import (
    DTYPES,
    load_model,
    parameter_count,
    resolve_device,
    set_threads,
    use_deterministic_algorithms,
)
from shared.policy.optimizer import load_optimizer_state, optimizer_state
from shared.policy.records import connect, read
from shared.policy.training import Trainer
from shared.policy.types import TrainRow
from shared.policy.weights import FILE, file_checksum, load_weights, read_tensors, save_weights

ADAPTER = "adapter."
ALPHA = "alpha"
"""What the adapters of a checkpoint were scaled by: part of what it means, and no tensor of the model."""


class TrainerService:
    """Serves one request after another: schedule, logprobs, accumulate, apply, discard, save, restore, export."""

    trainer = Trainer

    def __init__(self, settings: dict[str, Any]) -> None:
        config = parse(TrainerConfig, settings["trainer"])
        if config.deterministic:
            use_deterministic_algorithms()
        device = resolve_device(settings["device"])
        self._dtype = DTYPES[settings["dtype"]] if config.lora else torch.float32
        set_threads(settings["threads"], "trainer", device)
        self._initial = Path(settings["model"])
        self._store = Path(settings["store"])
        self._trainer = self.trainer(
            self._load(self._initial, device),
            config,
            total_steps=settings["total_steps"],
            temperature=settings["temperature"],
            reference=self._load(self._initial, device) if config.objective.kl_coef and not config.lora else None,
            autocast=settings["dtype"] == "bfloat16",
        )
        self._methods: dict[str, Callable[..., Any]] = {
            "accumulate": self._accumulate,
            "apply": self._apply,
            "discard": self._trainer.discard,
            "schedule": self._trainer.schedule,
            "logprobs": self._trainer.logprobs,
            "save": self._save,
            "restore": self._restore,
            "export": self._export,
        }
        model = self._trainer.model
        self._first_adapters = {name: tensor.detach().clone() for name, tensor in adapter_state(model).items()}
        self.info = {
            "device": str(device),
            "threads": torch.get_num_threads(),
            "parameters": parameter_count(model),
            "memory": self._plan_memory(),
        }

    def _plan_memory(self) -> dict[str, int]:
        plan = self._plan()
        print(f"trainer: memory: {plan}", file=sys.stderr, flush=True)
        plan.check()
        return asdict(plan)

    def _plan(self) -> MemoryPlan:
        return self._trainer.plan_memory()

    def _load(self, folder: Path, device: torch.device) -> PreTrainedModel:
        with fitting(f"the model {folder}"):
            model = load_model(folder, device, self._dtype)
        check_head(model)
        return model

    def run(self, channel: Channel) -> None:
        """Consumes requests in their order, waits for the next, and produces a reply to each."""
        while True:
            for message in channel.receive():
                if "method" in message:  # a cancelled request runs to its end; nobody reads the reply
                    channel.send({"id": message["id"], **self._answer(message["method"], message["arguments"])})

    def _answer(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self._methods[method](**arguments)}
        except TandemError as error:
            return {"error": error.problem()}

    def _accumulate(self, rows: list[dict[str, Any]], step: int) -> dict[str, float] | None:
        wanted = [TrainRow(**row) for row in rows]
        connection = connect(self._store, write=False)
        try:
            found = read(connection, [row.trajectory for row in wanted])
        finally:
            connection.close()
        with fitting(f"the batch of step {step}"):
            return self._trainer.accumulate(join(wanted, found), step)

    def _apply(self, step: int) -> dict[str, float]:
        started = time.perf_counter()
        return self._trainer.apply(step) | {"seconds": time.perf_counter() - started}

    def _save(self, folder: str) -> str:
        save_file(trainer_state(self._trainer), Path(folder) / OPTIMIZER_FILE)
        return self._export(folder)

    def _export(self, folder: str) -> str:
        """A plain folder: whoever reads it need not know of adapters."""
        model = self._trainer.model
        return save_weights(model, Path(folder), merged_weights(model) if self._trainer.config.lora else None)

    def _restore(self, folder: str | None, checksum: str | None) -> None:
        self._trainer.discard()
        source = Path(folder) if folder else self._initial
        if checksum and file_checksum(source / FILE) != checksum:
            raise UserError(f"the checkpoint {source} is damaged; remove it, and the one before it is resumed from")
        self._take(source, read_tensors(source / OPTIMIZER_FILE) if folder else {})

    def _take(self, weights: Path, state: dict[str, Tensor]) -> None:
        model = self._trainer.model
        adapters = {key.removeprefix(ADAPTER): state[key] for key in state if key.startswith(ADAPTER)}
        if lora := self._trainer.config.lora:
            if state and float(adapters.pop(ALPHA, lora.alpha)) != lora.alpha:
                raise UserError(f"{weights} was trained with another policy.trainer.lora.alpha: resume with that one")
            load_adapter_state(model, adapters if state else self._first_adapters)
            if state:
                check_base(model, weights / FILE)
        elif adapters:
            raise UserError(f"{weights} was trained with policy.trainer.lora: resume it with that one")
        else:
            load_weights(model, weights)
        optimizer = {key: tensor for key, tensor in state.items() if not key.startswith(ADAPTER)}
        load_optimizer_state(model, self._trainer.optimizer, optimizer)


def trainer_state(trainer: Trainer) -> dict[str, Tensor]:
    """What resuming needs beside the weights' file: the optimiser's state, and the adapters before they were merged."""
    adapters = {ADAPTER + name: tensor for name, tensor in adapter_state(trainer.model).items()}
    scale = {ADAPTER + ALPHA: torch.tensor(lora.alpha, dtype=torch.float64)} if (lora := trainer.config.lora) else {}
    return optimizer_state(trainer.model, trainer.optimizer) | adapters | scale
