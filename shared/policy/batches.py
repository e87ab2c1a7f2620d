"""From the rows of a step to padded micro-batches: a pure function of the batch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shared.errors import InvalidInput, NotFound
from shared.policy.types import TrainRow, Trajectory


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
    """Longest first, at most `token_budget` padded tokens each (one row alone may exceed it); independent of order."""
    batches: list[list[Example]] = []
    for example in sorted(examples, key=lambda e: (-len(e.token_ids), e.trajectory)):
        if batches and (len(batches[-1]) + 1) * len(batches[-1][0].token_ids) <= token_budget:
            batches[-1].append(example)
        else:
            batches.append([example])
    return batches


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
