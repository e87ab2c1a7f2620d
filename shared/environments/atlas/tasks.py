"""Questions of 0 to 3 hops, or 4, drawn 1:2:2:2(:2), as chains of relations: `currency of country of Paris`.

No relation stands twice in a chain: the next one is that which stands before the last in the question.
"""

import random
from typing import NamedTuple

from shared.environments.atlas.world import ALL_RELATIONS, Kind, World
from shared.environments.base import Split, Task

HOPS, MOST_HOPS = 3, 4
"""The most hops of a question, by default and at all."""
CHAINS: dict[Kind, dict[int, tuple[tuple[str, ...], ...]]] = {
    "city": {
        0: ((),),
        1: (("country",), ("neighbour",), ("time zone",)),
        2: (
            ("country", "capital"),
            ("country", "currency"),
            ("country", "continent"),
            ("neighbour", "country"),
            ("neighbour", "time zone"),
        ),
        3: (
            ("neighbour", "country", "capital"),
            ("neighbour", "country", "currency"),
            ("neighbour", "country", "continent"),
            ("country", "capital", "neighbour"),
            ("country", "capital", "time zone"),
        ),
        4: (("neighbour", "country", "capital", "time zone"), ("country", "capital", "neighbour", "time zone")),
    },
    "country": {
        0: ((),),
        1: (("capital",), ("currency",), ("continent",)),
        2: (("capital", "neighbour"), ("capital", "time zone")),
        3: (("capital", "neighbour", "country"), ("capital", "neighbour", "time zone")),
        4: (("capital", "neighbour", "country", "currency"), ("capital", "neighbour", "country", "continent")),
    },
}


class Question(NamedTuple):
    """Where it starts, the relations in the order in which they are followed, and all names on the way."""

    start: str
    chain: tuple[str, ...]
    path: tuple[str, ...]

    @property
    def text(self) -> str:
        """As the planner is asked it: the last relation first, as in English."""
        return ask(self.start, *self.chain)


def ask(name: str, *chain: str) -> str:
    """`country of Paris` and the like; a chain of none asks for the name itself."""
    return " of ".join([*reversed(chain), name]) if chain else f"name of {name}"


def first_step(text: str) -> tuple[int, str]:
    """How many hops a question has, and its first step as a question: `country of Paris`; one of none has no step."""
    chain, rest = [], text
    while (relation := rest.partition(" of ")[0]) in ALL_RELATIONS:  # a name may have an `of`, too: Port of Spain
        chain.append(relation)
        rest = rest.removeprefix(f"{relation} of ")
    return len(chain), ask(rest, *chain[-1:]) if chain else ""


def draw_question(world: World, split: Split, rng: random.Random, most: int = HOPS) -> Question:
    """A question of at most `most` hops about an entity of `split`."""
    start = rng.choice(world.titles[split])
    count = rng.choice([0, *(hops for hops in range(1, most + 1) for _ in range(2))])
    chain = rng.choice(CHAINS[world.entities[start].kind][count])
    return Question(start, chain, tuple(world.follow(start, chain)))


def draw_task(world: World, split: Split, seed: int, index: int, most: int = HOPS) -> Task:
    """The task at `index` of the order of `seed`: a pure function of its arguments."""
    question = draw_question(world, split, random.Random(f"{split}/{seed}/{index}"), most)
    return Task(
        id=f"{split}-{seed}-{index}",
        query=question.text,
        answer=question.path[-1],
        metadata={"hops": len(question.chain), "kind": f"{len(question.chain)} hops", "start": question.start},
    )
