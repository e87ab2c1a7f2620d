"""A scripted conversation, and the row of token ids that it becomes: the very ids that a rollout would have."""

from dataclasses import dataclass
from typing import NamedTuple

from shared.agents.chat import ChatFormat
from shared.agents.protocol import render_result
from shared.environments.base import ToolResult


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model writes, then the results that it gets back (none after an answer).

    `learned`: whether its tokens are trained. A mistake that the next turn mends is shown, but not learned.
    """

    text: str
    results: tuple[ToolResult, ...] = ()
    learned: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is asked, and the turns that follow; `system` are the environment's instructions."""

    user: str
    turns: tuple[Turn, ...]
    system: str = ""


class Row(NamedTuple):
    """Token ids and, of the same length, which of them are learned; the first is not."""

    token_ids: list[int]
    learned: list[bool]


def render(chat: ChatFormat, conversation: Conversation) -> Row:
    """The ids as the chat format appends them in a rollout; each learned turn with the token that ends it."""
    ids = chat.start(conversation.system, conversation.user)
    learned = [False] * len(ids)
    for turn in conversation.turns:
        written = chat.turn(turn.text)
        ids += written
        learned += [turn.learned] * len(written)
        if turn.results:
            shown = chat.extend([render_result(result) for result in turn.results], closed=True)
            ids += shown
            learned += [False] * len(shown)
    return Row(ids, learned)
