"""The supervised loop: a batch of exercises and demonstrations, the loss on what is learned, one step of AdamW."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.optim import AdamW
from transformers import PreTrainedModel

from shared.policy.buckets import buckets
from shared.policy.logprobs import trained_logprobs
from shared.policy.optimizer import clip, zero_frozen
from shared.policy.warmup.conversation import Row
from shared.policy.warmup.pace import Pacer
from shared.policy.warmup.seat import Seat

T = TypeVar("T")
BETAS = (0.9, 0.95)
MAX_GRADIENT_NORM = 1.0
LOSS_SMOOTHING = 0.95
PADDING_TOKENS = 256
"""What one pass through a small model may waste on padding: about what another pass costs."""


@dataclass(frozen=True, slots=True)
class Progress:
    """After one step: the pacer's state, and the smoothed loss in nats per learned token."""

    step: int
    phase: str
    lookup: float
    loss: float
    fraction: float


def train(
    model: PreTrainedModel,
    seats: Sequence[Seat],
    seed: int,
    steps: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Pacer:
    """Train `model` in place at all its seats, at the pace of the first, until that ends, or for `steps` steps.

    Deterministic on one machine and thread.
    """
    pace = seats[0].curriculum.pace
    pacer = Pacer(pace, exercised=any(seat.curriculum.exercise is not None for seat in seats))
    optimizer = build_optimizer(model, pace.embedding_lr)
    rng = random.Random(seed)
    smoothed = 0.0
    while not (pacer.finished or pacer.failed or pacer.step == steps):
        rows, exercises = draw_batch(seats, pacer, rng)
        loss, lookup = accumulate(model, rows, exercises)
        zero_frozen(model)
        clip(model, MAX_GRADIENT_NORM)
        apply_step(optimizer, pacer.lr)
        pacer.advance(lookup)
        smoothed = loss if pacer.step == 1 else LOSS_SMOOTHING * smoothed + (1 - LOSS_SMOOTHING) * loss
        report(Progress(pacer.step, pacer.phase, pacer.lookup, smoothed, pacer.fraction))
    return pacer


def build_optimizer(model: PreTrainedModel, embedding_share: float) -> AdamW:
    """AdamW without decay; a group's `share` scales its learning rate."""
    embedding = model.get_input_embeddings().weight
    others = [parameter for parameter in model.parameters() if parameter is not embedding]
    groups = [{"params": others, "share": 1.0}, {"params": [embedding], "share": embedding_share}]
    return AdamW(groups, betas=BETAS, weight_decay=0.0, fused=True)


def apply_step(optimizer: AdamW, lr: float) -> None:
    """One optimiser step at this learning rate; the gradients are dropped."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group["share"]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def draw_batch(seats: Sequence[Seat], pacer: Pacer, rng: random.Random) -> tuple[list[Row], set[int]]:
    """The rows of the next step, and the places of the exercises among them; the seats have their turns by chance."""
    drawn = [seat.curriculum.exercise for seat in seats if seat.curriculum.exercise is not None]
    rows, exercises = [], set()
    for place in range(pacer.pace.batch):
        if drawn and rng.random() < pacer.exercises:
            exercises.add(place)
            rows.append(_any(drawn, rng)(rng, pacer.phase == "skewed"))
        else:
            rows.append(_any(seats, rng).demonstration(rng))
    return rows, exercises


def _any(choices: Sequence[T], rng: random.Random) -> T:
    """One of `choices`; the only one without a draw."""
    return choices[0] if len(choices) == 1 else rng.choice(choices)


def accumulate(model: PreTrainedModel, rows: Sequence[Row], exercises: Collection[int]) -> tuple[float, float | None]:
    """The gradient of the mean loss over all learned tokens; returns that loss, and the exercises' look-up accuracy.

    Rows of a similar length run together: padding costs as much as tokens.
    """
    order = sorted(range(len(rows)), key=lambda place: len(rows[place].token_ids))
    total = sum(sum(row.learned) for row in rows)
    loss, found, looked_up = 0.0, 0, 0
    for part in buckets([len(rows[place].token_ids) for place in order], PADDING_TOKENS):
        places = order[part]
        tokens, learned = collate([rows[place] for place in places], model.device)
        logprobs = trained_logprobs(model, tokens, learned, temperature=1.0)
        part_loss = -logprobs.sum() / total
        part_loss.backward()
        loss += part_loss.item()
        ours = learned * torch.tensor([[int(place in exercises)] for place in places], device=model.device)
        found += count_sure(logprobs, ours)
        looked_up += int(ours.sum())
    return loss, found / looked_up if looked_up else None


def collate(rows: Sequence[Row], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and what is learned of them (0 or 1), [rows, length] each; padding comes last and is not learned."""
    length = max(len(row.token_ids) for row in rows)
    tokens = [row.token_ids + [0] * (length - len(row.token_ids)) for row in rows]
    learned = [row.learned + [False] * (length - len(row.learned)) for row in rows]
    return torch.tensor(tokens, device=device), torch.tensor(learned, dtype=torch.long, device=device)


def count_sure(logprobs: Tensor, learned: Tensor) -> int:
    """How many of the learned tokens have more than half of the probability: greedy sampling is sure to find them."""
    return int(((logprobs.detach().exp() > 0.5) & learned.bool()).sum())
