"""Questions of 0 to 3 hops, drawn 1:2:2:2, as chains of relations: `currency of country of Paris`."""

import random
from typing import NamedTuple

from shared.environments.atlas.world import Kind, World
from shared.environments.base import Split, Task

HOPS = (0, 1, 1, 2, 2, 3, 3)
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
    },
    "country": {
        0: ((),),
        1: (("capital",), ("currency",), ("continent",)),
        2: (("capital", "neighbour"), ("capital", "time zone")),
        3: (("capital", "neighbour", "country"), ("capital", "neighbour", "time zone")),
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


def draw_question(world: World, split: Split, rng: random.Random, hops: int | None = None) -> Question:
    """A question about an entity of `split`; `hops` fixes their number."""
    start = rng.choice(world.titles[split])
    count = rng.choice(HOPS) if hops is None else hops
    chain = rng.choice(CHAINS[world.entities[start].kind][count])
    return Question(start, chain, tuple(world.follow(start, chain)))


def draw_task(world: World, split: Split, seed: int, index: int) -> Task:
    """The task at `index` of the order of `seed`: a pure function of its arguments."""
    question = draw_question(world, split, random.Random(f"{split}/{seed}/{index}"))
    return Task(
        id=f"{split}-{seed}-{index}",
        query=question.text,
        answer=question.path[-1],
        metadata={"hops": len(question.chain), "kind": f"{len(question.chain)} hops", "start": question.start},
    )
