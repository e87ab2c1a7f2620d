"""Faultless conversations over validation entities, with all that they are asked right: the look-up gates."""

import random
from typing import TYPE_CHECKING

from shared.agents.chat import ChatFormat
from shared.agents.protocol import render_answer
from shared.environments.atlas.articles import render_article, shuffled_lines
from shared.environments.atlas.demonstrations import call
from shared.environments.atlas.tasks import ask, draw_question
from shared.environments.atlas.tokenizer import THINK, THINK_END
from shared.environments.base import ToolResult
from shared.policy.warmup.conversation import Conversation, Row, Turn, render

if TYPE_CHECKING:
    from shared.environments.atlas import Atlas


Names = tuple[int, int]
"""[first, last) of the ids that are names."""


def lookup_row(atlas: "Atlas", chat: ChatFormat, names: Names, alone: bool, rng: random.Random) -> Row:
    """Of whoever has the tools: measured is the value that is read, and a single model's answer."""
    return _names_only(render(chat, _reading(atlas, alone, rng)), names)


def copying_row(atlas: "Atlas", chat: ChatFormat, names: Names, rng: random.Random) -> Row:
    """Of a planner in the chat of both roles: measured is the name that each delegation is about, and the answer."""
    question = draw_question(atlas.world, "validation", rng, atlas.habits.hops)
    turns = [
        Turn(call("delegate", "task", ask(name, relation)), (ToolResult("ok", f"{relation}: {following}"),))
        for name, relation, following in zip(question.path, question.chain, question.path[1:], strict=False)
    ]
    turns.append(Turn(render_answer(question.path[-1])))
    whole = Conversation(question.text, tuple(turns), system=atlas.system_prompt("planner"))
    return _names_only(render(chat, whole), names)


def _names_only(row: Row, names: Names) -> Row:
    learned = [of and names[0] <= token < names[1] for token, of in zip(*row, strict=True)]
    return Row(row.token_ids, learned)


def _reading(atlas: "Atlas", alone: bool, rng: random.Random) -> Conversation:
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
