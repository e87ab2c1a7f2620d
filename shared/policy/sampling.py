"""Sample one turn for each of a batch of prompts, with the log-probs that the trainer's ratio rests on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Generator, Tensor
from transformers import PreTrainedModel

from shared.policy.prefill import prefill


@dataclass(frozen=True, slots=True)
class Prompt:
    """What to continue, and when to stop: at a stop id, which is part of the turn, or after `max_new_tokens`."""

    token_ids: list[int]
    max_new_tokens: int
    stop_ids: frozenset[int]


@dataclass(slots=True)
class Turn:
    """Sampled ids and their log-probs, of one length."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["stop", "length"] | None = None


@torch.inference_mode()
def sample(
    model: PreTrainedModel, prompts: Sequence[Prompt], temperature: float, generator: Generator | None = None
) -> list[Turn]:
    """One turn for each prompt, in their order.

    A log-prob is of the distribution sampled from: softmax(logits / temperature) over the whole vocabulary, in
    float32. Temperature 0 takes the likeliest token, and its log-prob is that of temperature 1.
    """
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row].token_ids))
    ordered = [prompts[row] for row in order]
    turns = [Turn() for _ in ordered]
    logits, context = prefill(model, [p.token_ids for p in ordered], max(p.max_new_tokens for p in ordered))
    picked: list[Tensor] = []
    while True:
        logprobs = (logits.float() / (temperature or 1.0)).log_softmax(-1)
        tokens = logprobs.argmax(-1) if temperature == 0 else draw(logprobs, generator)
        picked.append(logprobs.gather(1, tokens[:, None])[:, 0])
        _append(turns, ordered, tokens.tolist())  # the one wait for the device in each step
        if all(turn.finish for turn in turns):
            break
        logits = context.advance(model, tokens)
    for turn, row in zip(turns, torch.stack(picked, 1).tolist(), strict=True):
        turn.logprobs = row[: len(turn.token_ids)]
    placed = dict(zip(order, turns, strict=True))
    return [placed[row] for row in range(len(prompts))]


def draw(logprobs: Tensor, generator: Generator | None = None) -> Tensor:
    """One token a row from `logprobs` [rows, vocabulary], by inverting the cumulative distribution in float64.

    A tenth of the cost of torch.multinomial, which draws an exponential for each word of the vocabulary.
    """
    cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
    uniform = torch.rand(len(logprobs), 1, dtype=torch.float64, device=logprobs.device, generator=generator)
    total = cumulative[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))  # the product may round up to the total, past every token
    return torch.searchsorted(cumulative, torch.minimum(uniform * total, below), right=True)[:, 0]


def _append(turns: list[Turn], prompts: Sequence[Prompt], tokens: list[int]) -> None:
    for turn, prompt, token in zip(turns, prompts, tokens, strict=True):
        if turn.finish:
            continue  # its row runs on beside the others, and what it draws is not looked at
        turn.token_ids.append(token)
        if token in prompt.stop_ids:
            turn.finish = "stop"
        elif len(turn.token_ids) >= prompt.max_new_tokens:
            turn.finish = "length"
