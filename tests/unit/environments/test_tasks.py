"""Tasks are pure functions of split, seed and index, about entities of their split; keys come from the data."""

from collections import Counter

import pytest

from shared.environments.atlas.tasks import CHAINS, ask
from shared.environments.base import SPLITS

MANY = 700


def test_the_same_arguments_give_the_same_task(atlas):
    for index in (0, 1, 63, 10**9):
        assert atlas.task("test", 5, index) == atlas.task("test", 5, index)


def test_seed_index_and_split_each_change_the_order(atlas):
    base = [atlas.task("train", 0, i).query for i in range(50)]
    assert base != [atlas.task("train", 1, i).query for i in range(50)]
    assert base != [atlas.task("train", 0, i + 50).query for i in range(50)]
    assert base != [atlas.task("test", 0, i).query for i in range(50)]


def test_ids_are_unique(atlas):
    ids = [atlas.task(split, seed, i).id for split in SPLITS for seed in (0, 1) for i in range(50)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("split", SPLITS)
def test_the_key_follows_from_the_question_alone(atlas, world, split):
    for index in range(MANY):
        task = atlas.task(split, 0, index)
        question, chain = task.query, []
        while question not in world.entities:
            relation, _, question = question.partition(" of ")  # a name may have one, too: Port of Spain
            chain.append(relation)
        start = name = question
        for relation in reversed(chain):
            if relation != "name":
                name = world.entities[name].facts[relation]
        assert name == task.answer
        assert world.entities[start].split == split


def test_no_name_of_one_split_is_asked_about_in_another(atlas):
    starts = {s: {atlas.task(s, 0, i).metadata["start"] for i in range(MANY)} for s in SPLITS}
    assert not starts["train"] & starts["test"]
    assert not starts["train"] & starts["validation"]
    assert not starts["validation"] & starts["test"]


def test_hops_are_drawn_one_two_two_two(atlas):
    hops = Counter(atlas.task("train", 0, i).metadata["hops"] for i in range(MANY))
    expected = {0: MANY / 7, 1: 2 * MANY / 7, 2: 2 * MANY / 7, 3: 2 * MANY / 7}
    for count, mean in expected.items():
        assert abs(hops[count] - mean) < 4 * mean**0.5


def test_every_chain_can_be_followed_from_every_entity(world):
    for title, entity in world.entities.items():
        for chains in CHAINS[entity.kind].values():
            for chain in chains:
                assert len(world.follow(title, chain)) == len(chain) + 1


def test_a_question_is_read_from_the_last_relation_to_the_name():
    assert ask("Paris") == "name of Paris"
    assert ask("Paris", "country") == "country of Paris"
    assert ask("Paris", "country", "currency") == "currency of country of Paris"
