"""From the rows of a step to padded micro-batches: a pure function of the batch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shared.errors import InvalidInput, NotFound
from shared.policy.types import TrainRow, Trajectory

CALL_TOKENS = 128
"""What one more forward and backward pass costs, in tokens: less padding than that is not worth a micro-batch."""


@dataclass(frozen=True, slots=True)
class Example:
    """A distinct row with its tokens. `mask` is 1 on what the policy sampled, `logprobs` are those of sampling."""

    trajectory: str
    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    advantage: float
    multiplicity: float
    dead: bool = False


class MicroBatch(NamedTuple):
    """Right-padded; `tokens`, `mask`, `sampled` are [rows, length], `advantages` and `multiplicities` [rows]."""

    tokens: Tensor
    mask: Tensor
    sampled: Tensor
    advantages: Tensor
    multiplicities: Tensor


def join(rows: Sequence[TrainRow], found: Mapping[str, Trajectory]) -> list[Example]:
    """Each row with its trajectory's tokens; an error names the trajectory that is missing or cannot be trained on."""
    examples: dict[str, Example] = {}
    for row in rows:
        trajectory = found.get(row.trajectory)
        if trajectory is None:
            raise NotFound(f"trajectory {row.trajectory} of this step is not in the store")
        if row.trajectory in examples:
            raise InvalidInput(f"trajectory {row.trajectory} stands twice in this step: copies are a multiplicity")
        if not any(trajectory.mask) or trajectory.mask[0]:
            raise InvalidInput(f"trajectory {row.trajectory} has an empty mask, or one on its first token")
        if not (math.isfinite(row.advantage) and math.isfinite(row.multiplicity) and row.multiplicity > 0):
            raise InvalidInput(
                f"trajectory {row.trajectory}: advantage and multiplicity are finite, the latter above 0"
            )
        examples[row.trajectory] = Example(
            trajectory=row.trajectory,
            token_ids=trajectory.token_ids,
            mask=trajectory.mask,
            logprobs=trajectory.logprobs,
            advantage=row.advantage,
            multiplicity=row.multiplicity,
            dead=row.dead,
        )
    return list(examples.values())


def split(examples: Sequence[Example], token_budget: int) -> list[list[Example]]:
    """Rows of like length together, longest first, at most `token_budget` padded tokens each (a longer row is alone).

    Cut where padding, and CALL_TOKENS for each micro-batch, come to least: a function of the set of rows.
    """
    rows = sorted(examples, key=lambda e: (-len(e.token_ids), e.trajectory))
    costs, starts = [0], [0]  # of the first n rows: the least cost, and where the last of their micro-batches begins
    for end in range(1, len(rows) + 1):
        choices = [(costs[end - 1] + len(rows[end - 1].token_ids), end - 1)]
        for start in range(end - 2, -1, -1):
            padded = len(rows[start].token_ids) * (end - start)
            if padded > token_budget:
                break
            choices.append((costs[start] + padded, start))
        cost, start = min(choices)
        costs.append(cost + CALL_TOKENS)
        starts.append(start)
    parts, end = [], len(rows)
    while end:
        parts.append(rows[starts[end] : end])
        end = starts[end]
    return parts[::-1]


def collate(examples: Sequence[Example], device: torch.device) -> MicroBatch:
    """One micro-batch. Padding comes after each row's tokens, where a causal model cannot see it."""
    length = max(len(e.token_ids) for e in examples)

    def padded(rows: list[list], dtype: torch.dtype) -> Tensor:
        return torch.tensor([row + [0] * (length - len(row)) for row in rows], dtype=dtype, device=device)

    return MicroBatch(
        padded([e.token_ids for e in examples], torch.long),
        padded([e.mask for e in examples], torch.long),
        padded([e.logprobs for e in examples], torch.float32),
        torch.tensor([e.advantage for e in examples], dtype=torch.float32, device=device),
        torch.tensor([e.multiplicity for e in examples], dtype=torch.float32, device=device),
    )
