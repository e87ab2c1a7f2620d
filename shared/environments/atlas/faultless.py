"""A faultless conversation over a validation entity, of whoever has the tools: the look-up gate."""

import random
from typing import TYPE_CHECKING

from shared.agents.chat import ChatFormat
from shared.agents.protocol import render_answer
from shared.environments.atlas.articles import render_article, shuffled_lines
from shared.environments.atlas.demonstrations import call
from shared.environments.atlas.tasks import ask
from shared.environments.atlas.tokenizer import THINK, THINK_END
from shared.environments.base import ToolResult
from shared.policy.warmup.conversation import Conversation, Row, Turn, render

if TYPE_CHECKING:
    from shared.environments.atlas import Atlas


def lookup_row(atlas: "Atlas", chat: ChatFormat, names: tuple[int, int], alone: bool, rng: random.Random) -> Row:
    """What is measured are the names of the last turn: the value that is read, and a single model's answer."""
    token_ids, learned = render(chat, _conversation(atlas, alone, rng))
    return Row(token_ids, [of and names[0] <= token < names[1] for token, of in zip(token_ids, learned, strict=True)])


def _conversation(atlas: "Atlas", alone: bool, rng: random.Random) -> Conversation:
    title = rng.choice(atlas.world.titles["validation"])
    facts = shuffled_lines(atlas.world.entities[title].facts, rng.random())
    relation = rng.choice(list(facts))
    hits = "; ".join(atlas.indexes["validation"].shown(title, str(rng.random())))
    article = ToolResult("ok", render_article(title, facts))
    asked, read = ask(title, relation), f"{relation}: {facts[relation]}"
    thought = f"{THINK}{asked}{THINK_END}" if alone else ""
    last = f"{THINK}{read}{THINK_END}{render_answer(facts[relation])}" if alone else render_answer(read)
    turns = (
        Turn(thought + call("search", "query", title), (ToolResult("ok", hits),), learned=False),
        Turn(call("open", "title", title), (article,), learned=False),
        Turn(last),
    )
    return Conversation(asked, turns, system=atlas.system_prompt("planner" if alone else "executor"))
