"""What a single model is shown: all hops in one conversation, and the same bad choices as a pair's."""

import random

import pytest

from shared.agents.protocol import Answer, Calls, parse
from shared.environments.atlas import Atlas
from shared.environments.atlas.demonstrations import FIRST_HIT
from shared.environments.atlas.single import single_demonstration
from shared.environments.atlas.tasks import first_step
from shared.environments.atlas.tokenizer import THINK, THINK_END

MANY = 600


@pytest.fixture(scope="module")
def conversations(atlas):
    rng = random.Random(1)
    return [single_demonstration(atlas.world, atlas.indexes["train"], rng) for _ in range(MANY)]


def thought(turn):
    return turn.text.removeprefix(THINK).partition(THINK_END)[0] if turn.text.startswith(THINK) else ""


def the_call(turn):
    action = parse(turn.text)
    assert isinstance(action, Calls)
    return action.calls[0]


def test_it_searches_and_opens_in_turn_and_then_answers(conversations):
    for conversation in conversations:
        names = [the_call(turn).name for turn in conversation.turns if turn.results]
        assert names[::2] == ["search"] * len(names[::2])
        assert names[1::2] == ["open"] * len(names[1::2])
        last = conversation.turns[-1]
        assert last.results or isinstance(parse(last.text), Answer)


def test_it_searches_the_name_of_the_step_that_it_thinks_of(conversations):
    for conversation in conversations:
        for turn in conversation.turns[::2]:
            if turn.results:
                step = thought(turn).rpartition(". ")[2]
                assert step.endswith(f" of {the_call(turn).arguments['query']}")


def test_its_first_step_is_mostly_the_questions(conversations):
    asked = [(first_step(c.user)[1], thought(c.turns[0])) for c in conversations if c.turns[0].results]
    right = sum(step == said for step, said in asked) / len(asked)
    assert 0.85 < right < 1


def test_what_it_read_stands_in_the_article_and_is_what_it_goes_on_with(conversations):
    read = 0
    for conversation in conversations:
        for opened, following in zip(conversation.turns[1::2], conversation.turns[2::2], strict=False):
            line = thought(following).partition(". ")[0]
            assert f"{line}." in opened.results[0].content
            read += 1
        last = parse(conversation.turns[-1].text)
        if isinstance(last, Answer) and len(conversation.turns) > 1 and last.text != "none":
            assert thought(conversation.turns[-1]).endswith(f": {last.text}")
    assert read > MANY / 2


def test_it_opens_the_first_hit_as_often_as_an_executor(conversations):
    wrong_first = opened_first = 0
    for conversation in conversations:
        for search, opened in zip(conversation.turns[::2], conversation.turns[1::2], strict=False):
            hits, name = search.results[0].content.split("; "), the_call(search).arguments["query"]
            if name in hits and hits[0] != name:
                wrong_first += 1
                opened_first += the_call(opened).arguments["title"] == hits[0]
    assert opened_first / wrong_first == pytest.approx(FIRST_HIT, abs=0.08)


def test_its_first_prompt_is_the_question_alone():
    single = Atlas().of_team("single")
    assert single.system_prompt("planner") == ""
    assert "search" in Atlas(describe_tools=True).of_team("single").system_prompt("planner")


def test_a_unified_model_is_told_which_role_it_has():
    unified = Atlas().of_team("unified")
    assert unified.system_prompt("planner") != unified.system_prompt("executor")
    assert (Atlas().system_prompt("planner"), Atlas().system_prompt("executor")) == ("", "")


def test_the_look_up_gate_of_a_unified_planner_is_over_validation_names(world):
    curriculum = Atlas().of_team("unified").curriculum("planner")
    tokenizer, rng = curriculum.from_scratch()[1], random.Random(0)
    for _ in range(50):
        ids, learned = curriculum.lookup(rng)
        asked = tokenizer.convert_ids_to_tokens([token for token, wanted in zip(ids, learned, strict=True) if wanted])
        assert asked
        assert all(world.entities[name].split == "validation" for name in asked if name in world.entities)
    assert curriculum.exercise is None
