"""A scripted conversation, and the row of token ids that it becomes."""

from dataclasses import dataclass
from typing import NamedTuple

from shared.environments.base import ResultState


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model writes, and what it then gets back; None after the last turn. `learned`: its tokens are trained."""

    text: str
    result: str | None = None
    state: ResultState = "ok"
    learned: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the user asks, and the turns that follow."""

    user: str
    turns: tuple[Turn, ...]
    system: str = ""


class Row(NamedTuple):
    """Token ids and, of the same length, which of them are learned."""

    token_ids: list[int]
    learned: list[bool]
