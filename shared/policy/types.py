"""The nouns that sampling, training and agents share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from shared.errors import Conflict
from shared.schemas.base import PolicyVersion, Role
from shared.schemas.invocation import PARTS


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample one turn. Temperature 0 is greedy; a turn ends at a stop id, which is part of it.

    Nothing else: a filter such as top-p would cut probability that the trainer's ratio counts.
    """

    max_new_tokens: int
    temperature: float = 1.0
    stop_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled turn: ids and their log-probs (same length) at the sampling temperature.

    `version` is that of the oldest token: the one with the fewest optimiser steps behind it. `spans` are
    (tokens, version) in their order where the weights changed between tokens, and empty where they did not.
    """

    token_ids: list[int]
    logprobs: list[float]
    version: PolicyVersion
    finish: Literal["stop", "length"]
    spans: tuple[tuple[int, PolicyVersion], ...] = ()

    @property
    def versions(self) -> list[PolicyVersion]:
        """The version whose weights sampled each token."""
        spans = self.spans or ((len(self.token_ids), self.version),)
        return [version for tokens, version in spans for _ in range(tokens)]


class Sampler(Protocol):
    """Samples from one policy. Any number of `generate` calls may wait at once; they are batched.

    Each token's version is true: its log-prob is that of the version's weights, given all tokens before it.
    """

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, checkpoint: Path | None = None
    ) -> Completion:
        """Sample one turn after `prompt_ids`, by the live weights or (evaluations only) a saved `checkpoint`.

        InvalidInput: ids that the model does not have, or more than its positions hold. A cancelled call frees its
        place in the batch.
        """
        ...

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        """Sample from the safetensors in `folder`, from the next token on at the earliest; no turn is lost by it.

        Turns in flight may finish under the version that they began with. Returns the checksum of what was loaded.
        """
        ...

    async def close(self) -> None:
        """End the process or thread behind it."""
        ...


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One agent's tokens, in the order in which they were fed and sampled. It never leaves its server.

    `token_ids`, `mask` (1: sampled by the policy, trained) and `logprobs` (0.0 where the mask is 0) have one length.
    `version` is that of the oldest sampled token. `messages` is the readable text, for people only.
    """

    id: str
    run: str
    role: Role
    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    version: PolicyVersion
    messages: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """Small JSON facts that the owning server keeps with it: scores, status, answer, reasons."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The trajectories below it, which were stored with it, and are released with it."""
        return tuple(self.facts.get(PARTS, ()))


@dataclass(frozen=True, slots=True)
class TrainRow:
    """One distinct row of a batch. `dead`: of a dead group, so counted in denominators and run through no model."""

    trajectory: str
    advantage: float
    multiplicity: float
    dead: bool = False


class StepAbandoned(Conflict):
    """The step was given up before its optimiser step: the stream is no longer ours. The weights are unchanged."""

    type: ClassVar[str] = "step-abandoned"
