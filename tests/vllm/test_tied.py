"""A server that was started on a model whose head is its embedding: it would keep the old head, and say nothing."""

from pathlib import Path

import pytest

from shared.errors import UserError
from shared.policy.config import PolicyConfig
from shared.policy.vllm.carrier import SharedFolder
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.evaluator import Evaluator
from shared.policy.vllm.loader import Loader
from shared.policy.vllm.sampler import VllmSampler
from shared.policy.vllm.server import VllmServer


@pytest.mark.vllm
@pytest.mark.timeout(1200)
async def test_it_is_refused_by_name_at_start(config: PolicyConfig, vllm: VllmConfig, tmp_path: Path):
    server = VllmServer(config, vllm, config.model, tmp_path / "vllm.log", 1)
    loader = Loader(server.api, config.model, SharedFolder(tmp_path / "weights"), vllm.sync_s)
    sampler = VllmSampler(config, vllm, server.api, server, loader, Evaluator(config, tmp_path / "evaluator.log", 1))
    try:
        with pytest.raises(UserError, match="whose head is its embedding"):
            await sampler.ready()
    finally:
        await sampler.close()
