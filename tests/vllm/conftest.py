"""The environment with vLLM in it, and a policy that samples there: on a CPU, of a tiny model."""

from pathlib import Path

import pytest

from shared.policy.config import PolicyConfig
from shared.policy.vllm.config import VllmConfig
from tests.benchmarks.environments import environment, python
from tests.unit.policy.tiny import save_model

ARGUMENTS = ("--enforce-eager", "--block-size=32")
"""No compiling; and blocks of the prefix cache that a prompt of these tests fills."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vllm", action="store_true", help="run the tests that need a vLLM server")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only where they are asked for, whatever else is: they need an environment of 3.5 GB."""
    if not config.getoption("--vllm", default=False):
        for item in items:
            if item.get_closest_marker("vllm"):
                item.add_marker(pytest.mark.skip(reason="make test-vllm runs it"))


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
