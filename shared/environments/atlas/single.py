"""Scripted demonstrations of a single model: it works through all hops itself, and chooses as badly as a pair does.

It thinks aloud what a pair tells one another: the step before a search (`country of Paris`), and the line that it read
(`country: France`). Two layers find the next step and the line only where the last ones stand in the text.
"""

import random

from shared.agents.protocol import render_answer
from shared.environments.atlas.articles import NOTHING, render_article
from shared.environments.atlas.demonstrations import (
    HABITS,
    REPEAT,
    call,
    choose_hit,
    choose_line,
    draw_asked,
    draw_stop,
    shuffled_facts,
    within_limit,
)
from shared.environments.atlas.habits import Habits
from shared.environments.atlas.recovery import CALLS_A_HOP
from shared.environments.atlas.search import SearchIndex
from shared.environments.atlas.tasks import ask, draw_question
from shared.environments.atlas.tokenizer import THINK, THINK_END
from shared.environments.atlas.world import World
from shared.environments.base import ToolResult
from shared.policy.warmup.conversation import Conversation, Turn
from shared.policy.warmup.faults import DrawFault, in_conversation


class _Work:
    """A conversation in the making: the name that it is at, and the line that was read last."""

    def __init__(self, world: World, index: SearchIndex, habits: Habits, rng: random.Random, start: str) -> None:
        self._world = world
        self._index = index
        self._habits = habits
        self._rng = rng
        self._seed = str(rng.random())
        self._facts: dict[str, dict[str, str]] = {}
        self._read = ""
        self.name = start
        self.turns: list[Turn] = []

    def step(self, relation: str) -> None:
        """Search the name, open a hit, read a line; now and then all of it once more."""
        name = self.name
        for _ in range(2 if self._rng.random() < REPEAT else 1):
            hits = self._index.shown(name, self._seed)
            thought = f"{self._read}. {ask(name, relation)}" if self._read else ask(name, relation)
            self._add(_think(thought) + call("search", "query", name), "; ".join(hits) or NOTHING)
            self.name = NOTHING
            if not hits:
                self._read = f"{relation}: {NOTHING}"
                return
            opened = choose_hit(hits, name, self._habits, self._rng)
            facts = self._article(opened)
            self._add(call("open", "title", opened), render_article(opened, facts))
            read = choose_line(facts, relation, self._habits, self._rng)
            self.name, self._read = facts[read], f"{read}: {facts[read]}"

    def answer(self) -> Turn:
        """The name that it came to, after the line where it stands."""
        return Turn((_think(self._read) if self._read else "") + render_answer(self.name))

    def _article(self, title: str) -> dict[str, str]:
        """An article stays the same in one conversation."""
        if title not in self._facts:
            self._facts[title] = shuffled_facts(self._world, title, self._rng)
        return self._facts[title]

    def _add(self, text: str, result: str) -> None:
        self.turns.append(Turn(text, (ToolResult("ok", result),)))


def single_demonstration(
    world: World, index: SearchIndex, rng: random.Random, habits: Habits = HABITS, fault: DrawFault | None = None
) -> Conversation:
    """Work hop after hop, stop too early or not, and answer with the last name."""
    recovers = fault if fault is not None and rng.random() < habits.recovery else None
    question = draw_question(world, "train", rng, habits.hops)
    work = _Work(world, index, habits, rng, question.start)
    for relation in question.chain[: draw_stop(len(question.chain), rng)]:
        work.step(draw_asked(relation, rng))
        if work.name == NOTHING:
            break
    whole = Conversation(question.text, (*work.turns, work.answer()))
    if recovers is not None:
        tools = [("search", "open")[place % CALLS_A_HOP] for place in range(len(work.turns))]
        whole = in_conversation(whole, tools, recovers(rng, question.text))
    return within_limit(whole, CALLS_A_HOP * habits.most_calls)


def _think(text: str) -> str:
    return f"{THINK}{text}{THINK_END}"
