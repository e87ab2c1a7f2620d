"""BM25 search: an index a split, the best three, in an order that tells nothing of their merit."""

from collections import Counter

import pytest

from shared.environments.atlas.articles import parse_article, render_article, shuffled_lines
from shared.environments.atlas.search import SearchIndex
from shared.environments.base import SPLITS

ARTICLES = {
    "Paris": "Paris. country: France. neighbour: Brussels.",
    "Paris Hill": "Paris Hill. country: Canada.",
    "France": "France. capital: Paris. currency: Euro.",
    "Lyon": "Lyon. country: France. time zone: Europe/Paris.",
    "Oslo": "Oslo. country: Norway.",
}


@pytest.fixture
def index():
    return SearchIndex(ARTICLES)


def test_the_title_itself_comes_first_by_score(index):
    assert index.best("Paris")[0] == "Paris"
    assert index.best("Oslo") == ["Oslo"]


def test_at_most_three_are_shown(index):
    assert len(index.best("Paris")) == 3


def test_words_match_alone_and_in_any_case(index):
    assert "Lyon" in index.best("lyon oslo")
    assert "Oslo" in index.best("lyon oslo")


@pytest.mark.parametrize(
    "query", ["", "   ", "!?", "Atlantis", '"', "'; DROP TABLE articles; --", "NEAR(", "title:", "*", "\x00", "東京"]
)
def test_what_matches_nothing_is_empty(index, query):
    assert index.best(query) == []


def test_fts_operators_in_a_query_are_plain_words(index):
    assert index.best("Oslo OR") == ["Oslo"]
    assert index.best('Oslo"') == ["Oslo"]


def test_the_order_is_a_function_of_task_and_query(index):
    assert index.shown("Paris", "task-1") == index.shown("Paris", "task-1")
    orders = {tuple(index.shown("Paris", f"task-{i}")) for i in range(50)}
    assert len(orders) == 6
    assert {frozenset(order) for order in orders} == {frozenset(index.best("Paris"))}


def test_the_place_of_the_best_hit_is_uniform(index):
    places = Counter(index.shown("Paris", f"task-{i}").index("Paris") for i in range(600))
    assert all(150 < places[place] < 250 for place in range(3))


@pytest.mark.parametrize("split", SPLITS)
def test_every_article_is_found_by_its_title_and_only_in_its_split(atlas, world, split):
    titles = set(world.titles[split])
    for title in titles:
        found = atlas.indexes[split].best(title)
        assert title in found
        assert set(found) <= titles


def test_an_article_can_be_read_back(world):
    for title, entity in world.entities.items():
        assert parse_article(render_article(title, entity.facts)) == (title, entity.facts)


def test_lines_are_shuffled_and_keep_their_facts(world):
    facts = world.entities["Paris"].facts
    orders = {tuple(shuffled_lines(facts, key)) for key in range(60)}
    assert len(orders) == 6
    assert all(shuffled_lines(facts, key) == facts for key in range(60))
