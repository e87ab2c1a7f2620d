"""The trainer's process: it reads a step's rows by id from the store's file, and answers with numbers only."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from shared.config import parse
from shared.errors import TandemError, UserError
from shared.policy.batches import join
from shared.policy.channel import Channel
from shared.policy.config import TrainerConfig
from shared.policy.model import (
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
from shared.policy.weights import FILE, file_checksum, load_weights, save_weights

OPTIMIZER_FILE = "optimizer.safetensors"


class TrainerService:
    """Serves one request after another: schedule, accumulate, apply, discard, save, restore, export."""

    def __init__(self, settings: dict[str, Any]) -> None:
        config = parse(TrainerConfig, settings["trainer"])
        if config.deterministic:
            use_deterministic_algorithms()
        device = resolve_device(settings["device"])
        set_threads(settings["threads"], "trainer", device)
        self._initial = Path(settings["model"])
        self._store = Path(settings["store"])
        self._trainer = Trainer(
            load_model(self._initial, device),
            config,
            total_steps=settings["total_steps"],
            temperature=settings["temperature"],
            reference=load_model(self._initial, device) if config.objective.kl_coef else None,
            autocast=settings["dtype"] == "bfloat16",
        )
        self._methods: dict[str, Callable[..., Any]] = {
            "accumulate": self._accumulate,
            "apply": self._apply,
            "discard": self._trainer.discard,
            "schedule": self._trainer.schedule,
            "save": self._save,
            "restore": self._restore,
            "export": self._export,
        }
        model = self._trainer.model
        self.info = {
            "device": str(device),
            "threads": torch.get_num_threads(),
            "parameters": parameter_count(model),
        }

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
        return self._trainer.accumulate(join(wanted, found), step)

    def _apply(self, step: int) -> dict[str, float]:
        started = time.perf_counter()
        return self._trainer.apply(step) | {"seconds": time.perf_counter() - started}

    def _save(self, folder: str) -> str:
        save_file(optimizer_state(self._trainer.model, self._trainer.optimizer), Path(folder) / OPTIMIZER_FILE)
        return save_weights(self._trainer.model, Path(folder))

    def _export(self, folder: str) -> str:
        return save_weights(self._trainer.model, Path(folder))

    def _restore(self, folder: str | None, checksum: str | None) -> None:
        self._trainer.discard()
        source = Path(folder) if folder else self._initial
        if checksum and file_checksum(source / FILE) != checksum:
            raise UserError(f"the checkpoint {source} is damaged; remove it, and the one before it is resumed from")
        load_weights(self._trainer.model, source)
        state = load_file(source / OPTIMIZER_FILE) if folder else {}
        load_optimizer_state(self._trainer.model, self._trainer.optimizer, state)
