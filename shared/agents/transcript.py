"""The exact tokens of one episode, in the order in which they were fed and sampled."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.errors import Unavailable
from shared.policy.types import Completion
from shared.schemas.base import PolicyVersion


@dataclass(slots=True)
class Transcript:
    """Ids, mask (1: sampled) and log-probs (0.0 where the mask is 0), always of one length; it only grows."""

    token_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    version: PolicyVersion | None = None
    """The version with the fewest optimiser steps among those that sampled: that of the oldest token."""

    def __len__(self) -> int:
        return len(self.token_ids)

    def feed(self, token_ids: Sequence[int]) -> None:
        """Append what the policy did not sample."""
        self.token_ids += token_ids
        self.mask += [0] * len(token_ids)
        self.logprobs += [0.0] * len(token_ids)

    def sampled(self, completion: Completion) -> None:
        """Append a sampled turn; Unavailable where the sampler's answer is no turn: nothing is made up for it."""
        if not completion.token_ids or len(completion.token_ids) != len(completion.logprobs):
            tokens, logprobs = len(completion.token_ids), len(completion.logprobs)
            raise Unavailable(f"the sampler answered with {tokens} tokens and {logprobs} log-probs")
        self.token_ids += completion.token_ids
        self.mask += [1] * len(completion.token_ids)
        self.logprobs += completion.logprobs
        if self.version is None or completion.version.updates < self.version.updates:
            self.version = completion.version
