"""Our trainer, as its process runs it."""

from pathlib import Path

import torch

from shared.policy.batches import Example
from shared.policy.config import TrainerConfig
from shared.policy.model import load_model
from shared.policy.training import Trainer
from tests.benchmarks.train.rows import Row


class Ours:
    """The model, its trainer, and `step`."""

    def __init__(self, folder: Path, *, checkpointing: bool = False) -> None:
        self.model = load_model(folder, torch.device("cpu"))
        config = TrainerConfig(lr=1e-6, warmup_steps=0, gradient_checkpointing=checkpointing)
        self._trainer = Trainer(self.model, config, total_steps=1000)

    def step(self, rows: list[Row]) -> tuple[float, float]:
        """One optimiser step; the loss and the norm of the gradient."""
        examples = [
            Example(row.id, row.token_ids, row.mask, row.logprobs, row.advantage, row.multiplicity) for row in rows
        ]
        found = self._trainer.accumulate(examples, 1)
        assert found is not None
        return found["loss"], self._trainer.apply(1)["gradient_norm"]
