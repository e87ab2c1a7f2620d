"""The sampler as its server sees it: a child process that batches, between tokens, whatever is in flight."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared.policy.child import CLOSE_S, Child
from shared.policy.config import MIB, PolicyConfig
from shared.policy.types import Completion, SamplingParams
from shared.schemas.base import PolicyVersion

GENERATE_S = 600.0
LOAD_S = 600.0


class TransformersSampler:
    """The `Sampler` protocol over Hugging Face transformers, on a CPU or a GPU."""

    probes = False

    def __init__(self, child: Child) -> None:
        self._child = child
        self.waiting = self.turns = self.tokens = 0
        """Turns that are asked for and not answered, turns that were, and the tokens sampled for them."""

    @classmethod
    async def spawn(cls, config: PolicyConfig, log: Path, threads: int) -> "TransformersSampler":
        """Start the process on the weights of `config.model`; `ready` waits until they are loaded."""
        return cls(await Child.spawn("sampler", cls.settings(config), log, threads))

    @staticmethod
    def settings(config: PolicyConfig) -> dict[str, Any]:
        """What the process is told at its start."""
        settings = config.model_dump(mode="json", include={"model", "device", "dtype", "max_batch", "seed"})
        return settings | {"cache_bytes": config.cache_mib * MIB}

    @property
    def info(self) -> dict[str, Any]:
        """The process's device, threads and number of parameters."""
        return self._child.info

    async def ready(self) -> None:
        """Wait until its model is loaded; raises its own UserError, or Unavailable if it ended."""
        await self._child.ready()

    async def died(self) -> str:
        """Wait for the process's end, and say why. Does not return after `close`."""
        return await self._child.died()

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, checkpoint: Path | None = None
    ) -> Completion:
        """Sample one turn. InvalidInput: ids that the model does not have, or more than its positions hold."""
        arguments = {
            "token_ids": list(prompt_ids),
            "max_new_tokens": params.max_new_tokens,
            "temperature": params.temperature,
            "stop_ids": params.stop_ids,
            "checkpoint": None if checkpoint is None else str(checkpoint),
        }
        self.waiting += 1
        try:
            answer = await self._child.call("generate", arguments, GENERATE_S)
        finally:
            self.waiting -= 1
        spans = tuple((tokens, PolicyVersion(**version)) for tokens, version in answer["spans"])
        completion = Completion(**answer | {"version": PolicyVersion(**answer["version"]), "spans": spans})
        self.turns += 1
        self.tokens += len(completion.token_ids)
        return completion

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        """Use the weights in `folder` from the next token on; returns the checksum of what was loaded."""
        arguments = {"folder": str(folder), "version": version.model_dump()}
        return (await self._child.call("load", arguments, LOAD_S))["checksum"]

    async def statistics(self) -> dict[str, Any]:
        """Counts since the start: turns, forward passes, tokens fed, reused and sampled, seconds spent sampling."""
        return await self._child.call("statistics", timeout_s=GENERATE_S)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End the process, within the bound."""
        await self._child.close(timeout_s)
