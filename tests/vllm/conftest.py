"""The environment with vLLM in it, and a policy that samples there: on a CPU, of a tiny model."""

from pathlib import Path

import pytest

from shared.policy.config import PolicyConfig
from shared.policy.vllm.config import VllmConfig
from tests.benchmarks.environments import environment, python
from tests.unit.policy.tiny import save_model

ARGUMENTS = ("--enforce-eager", "--block-size=32")
"""No compiling; and blocks of the prefix cache that a prompt of these tests fills."""


@pytest.fixture(scope="session")
def vllm() -> VllmConfig:
    """Made where it is missing."""
    environment("vllm")
    return VllmConfig(python=python("vllm"), arguments=ARGUMENTS)


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory, vllm: VllmConfig) -> PolicyConfig:
    """Of a tied model, as the smallest language models are."""
    model: Path = save_model(tmp_path_factory.mktemp("model"), tied=True)
    trainer = {"lr": 1e-2, "warmup_steps": 0, "max_gap": 1e-3}
    values = {"model": model, "device": "cpu", "threads": 1, "sampler": "vllm", "vllm": vllm, "trainer": trainer}
    return PolicyConfig.model_validate(values | {"cache_mib": 256})
