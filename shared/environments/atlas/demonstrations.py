"""Scripted demonstrations for the warm-up: they copy well and choose badly, at stated rates.

What they do wrong is what reinforcement learning then mends: the executor opens the first hit, mixes up two relations;
the planner stops a hop early, or asks again. Errors that most demonstrations share, not errors at random: greedy
sampling shows them too. The executor's articles hold shuffled facts (values of the right kind, drawn anew each time):
there is nothing to memorise, it must read.
"""

import random

from shared.environments.atlas.articles import NOTHING, render_article, shuffled_lines
from shared.environments.atlas.search import SearchIndex
from shared.environments.atlas.tasks import ask, draw_question
from shared.environments.atlas.tokenizer import CALL_END, call_start
from shared.environments.atlas.world import ALL_RELATIONS, World
from shared.policy.warmup.conversation import Conversation, Turn

FIRST_HIT = 0.6
"""Opens the first hit, whatever it is, else the right one."""
MIXED_UP = {"neighbour": "time zone", "currency": "continent"}
MIX_UP = 0.55
ANY_LINE = 0.05
NO_HIT = 0.06
"""Asked for a name that no article mentions: the search comes to nothing, and so does the answer."""
WRONG_TITLE = 0.08
"""Opened a title that does not exist (not learned), then opens a hit (learned)."""
EARLY = {0: 0.0, 1: 0.10, 2: 0.55, 3: 0.70}
"""Stops too early, by the number of hops."""
REPEAT = 0.15
WRONG_RELATION = 0.08
WRONG_RESULT = 0.25
"""Gets a wrong answer of the executor, and goes on from it."""
MAX_CALLS = 4


def call(tool: str, argument: str, value: str) -> str:
    """A call as the model writes it."""
    return f"{call_start(tool, argument)}{value}{CALL_END}"


def answer(text: str) -> str:
    """A final answer as the model writes it."""
    return f"<answer>{text}</answer>"


def _shuffled_facts(world: World, title: str, rng: random.Random) -> dict[str, str]:
    """The relations of `title` with values of other training entities of its kind, in any order."""
    kind = world.entities[title].kind
    facts = {r: world.entities[rng.choice(world.peers["train", kind])].facts[r] for r in world.entities[title].facts}
    return shuffled_lines(facts, rng.random())


def executor_demonstration(world: World, index: SearchIndex, rng: random.Random) -> Conversation:
    """Search the name, open a hit, read a line."""
    title = rng.choice(world.titles["train"])
    wanted = rng.choice(list(world.entities[title].facts))
    search = call("search", "query", title)
    if rng.random() < NO_HIT:
        stranger = rng.choice(world.names)
        wanted = rng.choice(ALL_RELATIONS)
        turns = [Turn(call("search", "query", stranger), NOTHING), Turn(answer(f"{wanted}: {NOTHING}"))]
        return Conversation(ask(stranger, wanted), tuple(turns))
    hits = index.shown(title, str(rng.random()))
    opened = hits[0] if rng.random() < FIRST_HIT else title
    turns = [Turn(search, "; ".join(hits))]
    if rng.random() < WRONG_TITLE:
        wrong = call("open", "title", rng.choice(world.names))
        turns += [Turn(wrong, NOTHING, state="error", learned=False), Turn(call("open", "title", opened))]
        return Conversation(ask(title, wanted), tuple(turns))
    facts = _shuffled_facts(world, opened, rng)
    read = MIXED_UP[wanted] if wanted in MIXED_UP and rng.random() < MIX_UP else wanted
    if read not in facts or rng.random() < ANY_LINE:
        read = rng.choice(list(facts))
    turns.append(Turn(call("open", "title", opened), render_article(opened, facts)))
    turns.append(Turn(answer(f"{read}: {facts[read]}")))
    return Conversation(ask(title, wanted), tuple(turns))


def planner_demonstration(world: World, rng: random.Random) -> Conversation:
    """Ask hop after hop, each about the last answer; answer with the last one."""
    question = draw_question(world, "train", rng)
    hops = len(question.chain)
    stop = hops
    if rng.random() < EARLY[hops]:
        stop = hops - 1 if rng.random() < 0.85 else rng.randrange(hops)
    current, turns = question.start, []
    for relation in question.chain[:stop]:
        asked = rng.choice(ALL_RELATIONS) if rng.random() < WRONG_RELATION else relation
        result = _result(world, current, asked, rng)
        repeats = 2 if rng.random() < REPEAT else 1
        for _ in range(min(repeats, MAX_CALLS - len(turns))):
            turns.append(Turn(call("delegate", "task", ask(current, asked)), f"{asked}: {result}"))
        current = result
    return Conversation(question.text, (*turns, Turn(answer(current))))


def _result(world: World, name: str, relation: str, rng: random.Random) -> str:
    """What the executor might say: the truth, or any value where it errs or was asked for what is not there."""
    entity = world.entities.get(name)
    if entity and relation in entity.facts and rng.random() >= WRONG_RESULT:
        return entity.facts[relation]
    return rng.choice(list(world.entities[rng.choice(world.titles["train"])].facts.values()))
