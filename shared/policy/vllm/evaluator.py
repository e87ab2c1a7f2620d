"""Turns of evaluation checkpoints: a vLLM server holds the live weights only, so a sampler of our own has those."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from shared.policy.child import CLOSE_S
from shared.policy.config import PolicyConfig
from shared.policy.folder import check_model_folder
from shared.policy.sampler import TransformersSampler
from shared.policy.types import Completion, SamplingParams


class Evaluator:
    """A transformers sampler, on `policy.device`, that is started when a checkpoint is first asked for."""

    def __init__(self, config: PolicyConfig, log: Path, threads: int) -> None:
        self._config, self._log, self._threads = config, log, threads
        self._starting = asyncio.Lock()
        self._sampler: TransformersSampler | None = None
        self._started = asyncio.Event()

    async def generate(self, prompt_ids: Sequence[int], params: SamplingParams, checkpoint: Path) -> Completion:
        """Sample one turn by the weights of `checkpoint`."""
        check_model_folder(checkpoint)
        async with self._starting:
            if self._sampler is None:
                self._sampler = await self._start()
                self._started.set()
        return await self._sampler.generate(prompt_ids, params, checkpoint=checkpoint)

    async def died(self) -> str:
        """Wait for its end, once it is started, and say why."""
        await self._started.wait()
        assert self._sampler is not None
        return await self._sampler.died()

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End it, where it was started."""
        if self._sampler:
            await self._sampler.close(timeout_s)

    async def _start(self) -> TransformersSampler:
        sampler = await TransformersSampler.spawn(self._config, self._log, self._threads)
        try:
            await sampler.ready()
        except BaseException:
            await sampler.close(0)
            raise
        return sampler
