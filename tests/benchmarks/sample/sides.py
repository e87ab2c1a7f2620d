"""The sides: each samples all turns of some conversations, and the next prompt is the last one with its turn."""

import asyncio
from pathlib import Path
from typing import Protocol

import torch
from transformers import LlamaForCausalLM

from shared.policy.config import PolicyConfig
from shared.policy.types import Sampler, SamplingParams

Conversation = list[list[int]]


class Side(Protocol):
    """Something that samples."""

    async def run(self, conversations: list[Conversation], new: int) -> None:
        """Sample `new` tokens in each turn."""
        ...


class Served:
    """A sampler of ours: all conversations at once, each going on as soon as its own turn has come."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    async def run(self, conversations: list[Conversation], new: int) -> None:
        """Each conversation is a task."""

        async def converse(turns: Conversation) -> None:
            row: list[int] = []
            for added in turns:
                row += added
                row += (await self._sampler.generate(row, SamplingParams(new))).token_ids

        await asyncio.gather(*map(converse, conversations))


class Generate:
    """`model.generate`: on all conversations, turn by turn, as one left-padded batch; or on one after another."""

    def __init__(self, model: LlamaForCausalLM, *, batched: bool) -> None:
        self._model, self._batched = model, batched

    async def run(self, conversations: list[Conversation], new: int) -> None:
        """It blocks: nothing else runs meanwhile."""
        for batch in [conversations] if self._batched else [[each] for each in conversations]:
            rows: list[list[int]] = [[] for _ in batch]
            for turn in range(len(batch[0])):
                rows = [row + each[turn] for row, each in zip(rows, batch, strict=True)]
                rows = [row + ids for row, ids in zip(rows, self._generate(rows, new), strict=True)]

    def _generate(self, rows: list[list[int]], new: int) -> list[list[int]]:
        longest = max(map(len, rows))
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        done = self._model.generate(  # ty: ignore
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=new,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            pad_token_id=0,
        )
        return done[:, longest:].tolist()


def config(model: Path, threads: int, vllm: Path | None = None) -> PolicyConfig:
    """Of a sampler on that model, by this project or, with the interpreter of its environment, by vLLM."""
    settings = {"model": model, "device": "cpu", "threads": threads}
    return PolicyConfig.model_validate(settings | ({"sampler": "vllm", "vllm": {"python": vllm}} if vllm else {}))
