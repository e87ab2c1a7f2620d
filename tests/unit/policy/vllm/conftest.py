from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import httpx
import pytest

from shared.policy.config import PolicyConfig
from shared.policy.vllm.api import VllmApi
from shared.policy.vllm.carrier import SharedFolder
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.connect import RemoteServer
from shared.policy.vllm.evaluator import Evaluator
from shared.policy.vllm.loader import Loader
from shared.policy.vllm.sampler import VllmSampler

from ..tiny import build_model, save_model
from .fake import FakeVllm

SILENT_S = 0.05


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def other(tmp_path: Path) -> Callable[[int], Path]:
    """A folder with other weights, as the trainer exports them."""

    def make(seed: int) -> Path:
        build_model(seed=seed).save_pretrained(tmp_path / f"other-{seed}")
        return tmp_path / f"other-{seed}"

    return make


@pytest.fixture
def fake() -> FakeVllm:
    return FakeVllm()


@pytest.fixture
def make_sampler(fake: FakeVllm, model: Path, tmp_path: Path) -> Callable[..., VllmSampler]:
    def make(**changes: object) -> VllmSampler:
        vllm = VllmConfig.model_validate({"url": "http://vllm", "folder": tmp_path / "weights"} | changes)
        config = PolicyConfig.model_validate({"model": model, "sampler": "vllm", "vllm": vllm})
        api = VllmApi("the vLLM server", httpx.ASGITransport(fake.app), "http://vllm")
        loader = Loader(api, model, SharedFolder(tmp_path / "weights"), vllm.sync_s)
        server = RemoteServer(api, SILENT_S, SILENT_S, SILENT_S / 10)
        return VllmSampler(config, vllm, api, server, loader, Evaluator(config, tmp_path / "evaluator.log", 1))

    return make


@pytest.fixture
async def sampler(make_sampler: Callable[..., VllmSampler]) -> AsyncGenerator[VllmSampler]:
    sampler = make_sampler()
    await sampler.ready()
    yield sampler
    await sampler.close()
