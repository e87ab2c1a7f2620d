from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from shared.ids import new_id
from shared.policy.config import PolicyConfig
from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion
from shared.schemas.stream import Ack

from .tiny import WORDS, save_model


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return save_model(tmp_path / "model")


@pytest.fixture
def config(model_folder: Path) -> PolicyConfig:
    trainer = {"lr": 1e-2, "warmup_steps": 0}
    return PolicyConfig.model_validate({"model": model_folder, "device": "cpu", "threads": 1, "trainer": trainer})


@pytest.fixture
def make_trajectory() -> Callable[..., Trajectory]:
    """A trajectory of random ids: a prompt, a sampled turn, a tool's answer, a sampled turn."""
    generator = torch.Generator().manual_seed(7)

    def make(length: int = 12, **changes: object) -> Trajectory:
        ids = torch.randint(2, WORDS, (length,), generator=generator).tolist()
        mask = [int(i > 2 and i % 5 != 0) for i in range(length)]
        logprobs = [float(-1 - i % 3) if trained else 0.0 for i, trained in enumerate(mask)]
        version = PolicyVersion(epoch=1, step=0, updates=0)
        fields = {"id": new_id(), "run": "r", "role": "executor", "token_ids": ids, "mask": mask, "logprobs": logprobs}
        return Trajectory(**fields | {"version": version} | changes)

    return make


@pytest.fixture
def ack() -> Callable[[int], Ack]:
    return lambda step: Ack(epoch=3, step=step, outcome="trained", updates=step, fates={new_id(): 2, new_id(): "stale"})
