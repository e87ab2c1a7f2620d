"""A vLLM server against what every sampler must do."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from shared.policy.config import PolicyConfig
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.sampler import VllmSampler
from tests.unit.policy.sampler_contract import SamplerContract


@pytest.mark.vllm
@pytest.mark.timeout(1200)
class TestVllmSampler(SamplerContract):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def started(
        self, config: PolicyConfig, vllm: VllmConfig, tmp_path_factory: pytest.TempPathFactory
    ) -> AsyncGenerator[VllmSampler]:
        folder = tmp_path_factory.mktemp("vllm")
        sampler = await VllmSampler.spawn(config, vllm, folder / "weights", folder, 1)
        try:
            await sampler.ready()
            yield sampler
        finally:
            await sampler.close()
