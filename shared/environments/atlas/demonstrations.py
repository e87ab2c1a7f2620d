"""Scripted demonstrations for the warm-up: they copy well and choose badly, at stated rates.

What they do wrong is what reinforcement learning then mends: the executor opens the first hit, mixes up two relations;
the planner stops a hop early, or asks again. Errors that most demonstrations share, not errors at random: greedy
sampling shows them too. The executor's articles hold shuffled facts (values of the right kind, drawn anew each time):
there is nothing to memorise, it must read. Some conversations show a failure first, and how to go on from it; with
`Habits.recovery` that many more of them do, with every fault that the protocol knows (recovery.py).
"""

import random
from collections.abc import Mapping
from dataclasses import replace

from shared.agents.loop import NOTICES
from shared.agents.protocol import Call, Reason, render_answer, render_call
from shared.environments.atlas.articles import NOTHING, render_article, shuffled_lines
from shared.environments.atlas.habits import Habits
from shared.environments.atlas.search import SearchIndex
from shared.environments.atlas.tasks import ask, draw_question
from shared.environments.atlas.world import ALL_RELATIONS, World
from shared.environments.base import ToolResult
from shared.policy.warmup.conversation import Conversation, Turn
from shared.policy.warmup.faults import DrawFault, in_conversation

HABITS = Habits()
FIRST_HIT = 0.6
"""Opens the first hit, whatever it is, else the right one."""
MIXED_UP = {"neighbour": "time zone", "currency": "continent"}
MIX_UP = 0.55
ANY_LINE = 0.05
"""Answers with a line drawn at random."""
NO_HIT = 0.05
"""No article mentions the name: the search comes to nothing, and so does the answer."""
WRONG_TITLE = 0.08
"""Opened a title that does not exist (not learned), then opens a hit (learned)."""
OUT_OF_TURNS = 0.04
"""Is told that no turns are left, and answers."""

EARLY = {0: 0.0, 1: 0.10, 2: 0.55, 3: 0.70, 4: 0.75}
"""Stops too early, by the number of hops: mostly one hop, else any number."""
ONE_HOP_EARLY = 0.85
REPEAT = 0.15
"""Asks the same once more."""
WRONG_RELATION = 0.08
WRONG_RESULT = 0.25
"""Gets a wrong answer of the executor, and goes on from it."""
HONEST = 0.6
"""Is told, of what does not exist, that there is nothing, and answers so."""
NO_RESULT = 0.08
"""The executor fails once, or finds nothing; asks again."""


def call(tool: str, argument: str, value: str) -> str:
    """A call as the model writes it."""
    return render_call(Call(tool, {argument: value}))


def _ok(content: str) -> tuple[ToolResult, ...]:
    return (ToolResult("ok", content),)


def shuffled_facts(world: World, title: str, rng: random.Random) -> dict[str, str]:
    """The relations of `title` with values of other training entities of its kind, in any order."""
    entity = world.entities[title]
    peers = world.peers["train", entity.kind]
    facts = {relation: world.entities[rng.choice(peers)].facts[relation] for relation in entity.facts}
    return shuffled_lines(facts, rng.random())


def executor_demonstration(
    world: World, index: SearchIndex, rng: random.Random, habits: Habits = HABITS, fault: DrawFault | None = None
) -> Conversation:
    """Search the name, open a hit, read a line; or a failure and what to do then."""
    recovers = fault if fault is not None and rng.random() < habits.recovery else None
    title = rng.choice(world.titles["train"])
    wanted = rng.choice(list(world.entities[title].facts))
    drawn = rng.random()
    if drawn < NO_HIT and recovers is None:
        return _no_hit(world, rng)
    hits = index.shown(title, str(rng.random()))
    search = Turn(call("search", "query", title), _ok("; ".join(hits)))
    opened = choose_hit(hits, title, habits, rng)
    if recovers is not None:
        whole = Conversation(ask(title, wanted), (search, *_open_and_read(world, opened, wanted, habits, rng)))
        return in_conversation(whole, ("search", "open"), recovers(rng, whole.user))
    if drawn < NO_HIT + WRONG_TITLE:
        failed = Turn(call("open", "title", rng.choice(world.names)), (ToolResult("error", NOTHING),), learned=False)
        return Conversation(ask(title, wanted), (search, failed, Turn(call("open", "title", opened))))
    if drawn < NO_HIT + WRONG_TITLE + OUT_OF_TURNS:
        told = (ToolResult("limit", NOTICES[Reason.TURN_LIMIT]),)
        refused = Turn(call("open", "title", rng.choice(hits)), told, learned=False)
        return Conversation(ask(title, wanted), (search, refused, Turn(render_answer(f"{wanted}: {NOTHING}"))))
    return Conversation(ask(title, wanted), (search, *_open_and_read(world, opened, wanted, habits, rng)))


def choose_hit(hits: list[str], title: str, habits: Habits, rng: random.Random) -> str:
    """The hit that is opened: too often the first, whatever it is."""
    first = rng.random() < FIRST_HIT * habits.executor_errors
    return hits[0] if first or title not in hits else title


def choose_line(facts: Mapping[str, str], wanted: str, habits: Habits, rng: random.Random) -> str:
    """The relation that is read: too often one that is mixed up with the wanted one."""
    mixed_up = wanted in MIXED_UP and rng.random() < MIX_UP * habits.executor_errors
    read = MIXED_UP[wanted] if mixed_up else wanted
    if read not in facts or rng.random() < ANY_LINE * habits.executor_errors:
        return rng.choice(list(facts))
    return read


def _open_and_read(world: World, opened: str, wanted: str, habits: Habits, rng: random.Random) -> tuple[Turn, Turn]:
    facts = shuffled_facts(world, opened, rng)
    read = choose_line(facts, wanted, habits, rng)
    article = Turn(call("open", "title", opened), _ok(render_article(opened, facts)))
    return article, Turn(render_answer(f"{read}: {facts[read]}"))


def _no_hit(world: World, rng: random.Random) -> Conversation:
    stranger, wanted = rng.choice(world.names), rng.choice(ALL_RELATIONS)
    search = Turn(call("search", "query", stranger), _ok(NOTHING))
    return Conversation(ask(stranger, wanted), (search, Turn(render_answer(f"{wanted}: {NOTHING}"))))


def draw_stop(hops: int, rng: random.Random) -> int:
    """After how many hops the answer is given: too often too early."""
    if rng.random() < EARLY[hops]:
        return hops - 1 if rng.random() < ONE_HOP_EARLY else rng.randrange(hops)
    return hops


def draw_asked(relation: str, rng: random.Random) -> str:
    """The relation that is asked for, now and then any other."""
    return rng.choice(ALL_RELATIONS) if rng.random() < WRONG_RELATION else relation


def planner_demonstration(
    world: World, rng: random.Random, habits: Habits = HABITS, fault: DrawFault | None = None
) -> Conversation:
    """Ask hop after hop, each about the last answer; answer with the last one."""
    recovers = fault if fault is not None and rng.random() < habits.recovery else None
    question = draw_question(world, "train", rng, habits.hops)
    current, turns = question.start, []
    for relation in question.chain[: draw_stop(len(question.chain), rng)]:
        asked = draw_asked(relation, rng)
        delegation = call("delegate", "task", ask(current, asked))
        if rng.random() < NO_RESULT:
            failure = ToolResult("error", "") if rng.random() < 0.5 else ToolResult("ok", f"{asked}: {NOTHING}")
            turns.append(Turn(delegation, (failure,)))
        result = _result(world, current, asked, rng)
        repeats = 2 if rng.random() < REPEAT else 1
        turns += [Turn(delegation, _ok(f"{asked}: {result}"))] * repeats
        current = result
        if result == NOTHING:
            break
    whole = Conversation(question.text, (*turns, Turn(render_answer(current))))
    if recovers is not None:
        whole = in_conversation(whole, ["delegate"] * len(turns), recovers(rng, question.text))
    return within_limit(whole, habits.most_calls)


def within_limit(conversation: Conversation, calls: int) -> Conversation:
    """The turns that a limit on calls allows; beyond it there is no answer: nothing to be learned from that."""
    turns = conversation.turns
    return conversation if len(turns) <= calls + 1 else replace(conversation, turns=turns[:calls])


def _result(world: World, name: str, relation: str, rng: random.Random) -> str:
    """What the executor might say: the truth, any value where it errs, mostly nothing where there is nothing."""
    entity = world.entities.get(name)
    if entity and relation in entity.facts:
        if rng.random() >= WRONG_RESULT:
            return entity.facts[relation]
    elif rng.random() < HONEST:
        return NOTHING
    return rng.choice(list(world.entities[rng.choice(world.titles["train"])].facts.values()))
