"""One token a row from its logits, with the log-prob that the trainer's ratio rests on."""

from collections.abc import Sequence
from math import isfinite

import torch
from torch import Generator, Tensor

from shared.errors import Unavailable


def pick(
    logits: Tensor, temperatures: Sequence[float], generator: Generator | None = None
) -> tuple[list[int], list[float]]:
    """A token for each row of `logits` [rows, vocabulary], and its log-prob.

    The log-prob is of the distribution that is sampled from: softmax(logits / temperature) over the whole vocabulary,
    in float32. Temperature 0 takes the likeliest token, and its log-prob is that of temperature 1. Unavailable: some
    logits are NaN or infinite.
    """
    greedy = [temperature == 0 for temperature in temperatures]
    logprobs = _scaled(logits.float(), [temperature or 1.0 for temperature in temperatures]).log_softmax(-1)
    if all(greedy):
        tokens = logprobs.argmax(-1)
    else:
        tokens = draw(logprobs, generator)
        if any(greedy):
            tokens = torch.where(torch.tensor(greedy, device=logits.device), logprobs.argmax(-1), tokens)
    picked = logprobs.gather(1, tokens[:, None])[:, 0]
    ids, values = torch.stack([tokens.double(), picked.double()]).tolist()  # the one wait for the device in a step
    if not all(map(isfinite, values)):
        raise Unavailable("the model's logits are not finite")
    return [int(token) for token in ids], values


def draw(logprobs: Tensor, generator: Generator | None = None) -> Tensor:
    """One token a row from `logprobs` [rows, vocabulary], by inverting the cumulative distribution in float64.

    A tenth of the cost of torch.multinomial, which draws an exponential for each word of the vocabulary.
    """
    cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
    uniform = torch.rand(len(logprobs), 1, dtype=torch.float64, device=logprobs.device, generator=generator)
    total = cumulative[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))  # the product may round up to the total, past every token
    tokens = torch.searchsorted(cumulative, torch.minimum(uniform * total, below), right=True)[:, 0]
    return tokens.clamp(max=logprobs.shape[1] - 1)  # NaN is past every token; `pick` refuses it


def _scaled(logits: Tensor, temperatures: list[float]) -> Tensor:
    if len(set(temperatures)) == 1:
        return logits if temperatures[0] == 1 else logits / temperatures[0]
    return logits / torch.tensor(temperatures, device=logits.device)[:, None]
