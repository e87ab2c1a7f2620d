"""A sampler in this process for a fixed number of episodes: it samples when all that still run wait for it.

So the batches, and with them every draw, are the same each time; the servers' sampler takes what is waiting instead.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from shared.errors import InvalidInput
from shared.policy.sampling import Prompt, sample
from shared.policy.types import Completion, Sampler, SamplingParams
from shared.schemas.base import PolicyVersion

T = TypeVar("T")
VERSION = PolicyVersion(epoch=0, step=0, updates=0)


@dataclass(slots=True)
class _Waiting:
    prompt: Prompt
    temperature: float
    answer: asyncio.Future[Completion]


class LockstepSampler:
    """Runs episodes over one model. All requests of a batch have one temperature."""

    def __init__(self, model: PreTrainedModel, seed: int) -> None:
        self._model = model
        self._generator = torch.Generator(model.device).manual_seed(seed)
        self._running = 0
        self._waiting: list[_Waiting] = []

    async def run(self, episodes: Sequence[Callable[[Sampler], Awaitable[T]]]) -> list[T]:
        """Run all `episodes` at once; their results in the same order."""
        self._running = len(episodes)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._episode(episode)) for episode in episodes]
        return [task.result() for task in tasks]

    async def _episode(self, episode: Callable[[Sampler], Awaitable[T]]) -> T:
        try:
            return await episode(self)
        finally:
            self._running -= 1
            self._sample_if_all_wait()

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, checkpoint: Path | None = None
    ) -> Completion:
        """One turn, once every other running episode has finished or asks for one, too."""
        if checkpoint is not None:
            raise InvalidInput("this sampler has no checkpoints")
        prompt = Prompt(list(prompt_ids), params.max_new_tokens, frozenset(params.stop_ids))
        waiting = _Waiting(prompt, params.temperature, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._sample_if_all_wait()
        return await waiting.answer

    def _sample_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._running:
            return
        batch, self._waiting = self._waiting, []
        turns = sample(self._model, [w.prompt for w in batch], batch[0].temperature, self._generator)
        for waiting, turn in zip(batch, turns, strict=True):
            assert turn.finish is not None
            waiting.answer.set_result(Completion(turn.token_ids, turn.logprobs, VERSION, turn.finish))

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        """It has the weights of the model that it was given, and no others."""
        raise InvalidInput("this sampler loads no weights")

    async def close(self) -> None:
        """There is nothing to close."""
