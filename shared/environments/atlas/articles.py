"""The texts of the world: an article is `Paris. country: France. neighbour: London. time zone: Europe/Paris.`"""

import random
from collections.abc import Mapping

from shared.environments.atlas.world import ALL_RELATIONS

NOTHING = "none"
"""What an empty search comes to."""


def render_article(title: str, facts: Mapping[str, str]) -> str:
    """The article, its lines in the order of `facts`."""
    return f"{title}. " + " ".join(f"{relation}: {value}." for relation, value in facts.items())


def shuffled_lines(facts: Mapping[str, str], *key: object) -> dict[str, str]:
    """`facts` in an order drawn from `key`: the place of a line tells nothing of its relation."""
    relations = list(facts)
    random.Random("/".join(map(str, key))).shuffle(relations)
    return {relation: facts[relation] for relation in relations}


def parse_article(text: str) -> tuple[str, dict[str, str]]:
    """Title and facts of a rendered article; lines that are none are left out."""
    title, *lines = text.removesuffix(".").split(". ")
    pairs = (line.partition(": ") for line in lines)
    return title, {relation: value for relation, colon, value in pairs if colon and relation in ALL_RELATIONS}
