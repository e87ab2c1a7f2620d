"""The sampler of this project, in its own process, against what every sampler must do."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from shared.policy.config import PolicyConfig
from shared.policy.sampler import TransformersSampler

from .sampler_contract import SamplerContract
from .tiny import save_model


class TestTransformersSampler(SamplerContract):
    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def started(self, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[TransformersSampler]:
        folder = tmp_path_factory.mktemp("sampler")
        config = PolicyConfig(model=save_model(folder / "model"), device="cpu", threads=1)
        sampler = await TransformersSampler.spawn(config, folder / "sampler.log", 1)
        try:
            await sampler.ready()
            yield sampler
        finally:
            await sampler.close()
