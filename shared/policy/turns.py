"""A prompt, the turn that is sampled after it, and the row that they share while it is in flight."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.policy.prefixes import Ids


@dataclass(frozen=True, slots=True)
class Prompt:
    """What to continue, and when to stop: at a stop id, which is part of the turn, or after `max_new_tokens`."""

    token_ids: list[int]
    max_new_tokens: int
    stop_ids: frozenset[int]
    temperature: float = 1.0


@dataclass(slots=True)
class Turn:
    """Sampled ids and their log-probs, of one length; `spans` are (tokens, version), by which weights they are."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["stop", "length"] | None = None
    spans: list[tuple[int, Any]] = field(default_factory=list)

    def close_span(self, version: Any) -> None:
        """The tokens since the last span are of this version."""
        tokens = len(self.token_ids) - sum(count for count, _ in self.spans)
        if tokens:
            self.spans.append((tokens, version))


@dataclass(slots=True)
class Row:
    """`ids`: the prompt and what was sampled after it, `end` at most. The model has been fed the first `past` of them.

    `source`: under which ids its beginning is kept for others.
    """

    key: Hashable
    prompt: Prompt
    ids: list[int]
    end: int
    turn: Turn = field(default_factory=Turn)
    past: int = 0
    source: Ids | None = None

    @classmethod
    def of(cls, key: Hashable, prompt: Prompt) -> "Row":
        """The row of a prompt that nothing was sampled for yet."""
        return cls(key, prompt, list(prompt.token_ids), len(prompt.token_ids) + prompt.max_new_tokens)

    def append(self, token: int, logprob: float) -> None:
        """A sampled token, which may end the turn."""
        self.ids.append(token)
        self.turn.token_ids.append(token)
        self.turn.logprobs.append(logprob)
        if token in self.prompt.stop_ids:
            self.turn.finish = "stop"
        elif len(self.ids) >= self.end:
            self.turn.finish = "length"
