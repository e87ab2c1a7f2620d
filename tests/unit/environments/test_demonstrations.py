"""Demonstrations: valid protocol, the stated faults at the stated rates, and not one fact of another split."""

import random

import pytest

from shared.agents.limits import Limits
from shared.agents.protocol import Answer, Call, Calls, parse
from shared.environments.atlas import demonstrations
from shared.environments.atlas.articles import parse_article
from shared.environments.atlas.demonstrations import executor_demonstration, planner_demonstration
from shared.environments.atlas.exercises import Exercises
from shared.environments.atlas.tasks import ask
from shared.environments.atlas.tokenizer import MAX_TOKENS, vocabulary
from shared.environments.atlas.world import ALL_RELATIONS
from shared.policy.warmup.conversation import render
from shared.schemas.base import ROLES

MANY = 3000


@pytest.fixture(scope="module")
def executor(atlas):
    rng = random.Random(1)
    return [executor_demonstration(atlas.world, atlas.indexes["train"], rng) for _ in range(MANY)]


@pytest.fixture(scope="module")
def planner(atlas):
    rng = random.Random(1)
    return [planner_demonstration(atlas.world, rng) for _ in range(MANY)]


def actions(conversation):
    return [parse(turn.text) for turn in conversation.turns]


def the_call(action) -> Call:
    assert isinstance(action, Calls)
    (call,) = action.calls
    return call


def test_every_turn_is_one_valid_action_and_calls_have_results(executor, planner):
    for conversation in executor + planner:
        *calls, last = actions(conversation)
        assert all(isinstance(action, Calls) for action in calls)
        assert all(len(turn.results) == 1 for turn in conversation.turns[:-1])
        if isinstance(last, Answer):
            assert conversation.turns[-1].results == ()


def test_an_executor_searches_the_name_it_was_asked_about(executor):
    for conversation in executor:
        search = the_call(actions(conversation)[0])
        assert search.name == "search"
        assert any(conversation.user == ask(search.arguments["query"], relation) for relation in ALL_RELATIONS)


def test_the_hits_are_those_of_the_index(executor, atlas):
    for conversation in executor:
        query = the_call(actions(conversation)[0]).arguments["query"]
        shown = conversation.turns[0].results[0].content
        if shown != "none":
            assert sorted(shown.split("; ")) == sorted(atlas.indexes["train"].best(query))


def test_an_executor_opens_only_hits_but_for_the_mistakes_that_are_not_learned(executor):
    for conversation in executor:
        hits = conversation.turns[0].results[0].content.split("; ")
        for turn, action in list(zip(conversation.turns, actions(conversation), strict=True))[1:]:
            if turn.learned and isinstance(action, Calls):
                assert the_call(action).arguments["title"] in hits


def test_what_an_executor_answers_stands_in_the_article(executor):
    answered = 0
    for conversation in executor:
        *_, before, last = conversation.turns
        action = parse(last.text)
        if isinstance(action, Answer) and before.results[0].state == "ok" and before.results[0].content != "none":
            _, facts = parse_article(before.results[0].content)
            relation, _, value = action.text.partition(": ")
            assert facts[relation] == value
            answered += 1
    assert answered > MANY / 2


def test_facts_in_articles_are_shuffled(executor, world):
    true = total = 0
    for conversation in executor:
        for turn in conversation.turns[1:]:
            if turn.results and turn.results[0].state == "ok":
                title, facts = parse_article(turn.results[0].content)
                true += sum(world.entities[title].facts[relation] == value for relation, value in facts.items())
                total += len(facts)
    assert true / total < 0.15  # by chance only: few continents, many countries


def test_the_executors_faults_have_their_rates(executor):
    first = [c for c in executor if len(c.turns) == 3 and c.turns[1].learned and c.turns[1].results]
    unlike = [c for c in first if the_call(actions(c)[1]).arguments["title"] not in c.user]
    wrong_first = [c for c in first if not c.user.endswith(c.turns[0].results[0].content.split("; ")[0])]
    expected = demonstrations.FIRST_HIT * len(wrong_first) / len(first)
    assert len(unlike) / len(first) == pytest.approx(expected, abs=0.03)
    states = [turn.results[0] for c in executor for turn in c.turns if turn.results]
    assert sum(r.content == "none" and r.state == "ok" for r in states) / MANY == pytest.approx(
        demonstrations.NO_HIT, abs=0.015
    )
    assert sum(r.state == "error" for r in states) / MANY == pytest.approx(demonstrations.WRONG_TITLE, abs=0.02)
    assert sum(r.state == "limit" for r in states) / MANY == pytest.approx(demonstrations.OUT_OF_TURNS, abs=0.015)


def test_after_a_limit_comes_the_answer(executor):
    seen = 0
    for conversation in executor:
        for turn, following in zip(conversation.turns, conversation.turns[1:], strict=False):
            if turn.results[0].state == "limit":
                assert isinstance(parse(following.text), Answer)
                seen += 1
    assert seen


def test_a_planner_answers_with_a_name_it_was_told(planner):
    for conversation in planner:
        *before, last = conversation.turns
        action = parse(last.text)
        if isinstance(action, Answer):
            told = [turn.results[0].content.partition(": ")[2] for turn in before if turn.results[0].content]
            assert action.text == (told[-1] if told else conversation.user.partition("name of ")[2] or action.text)


def test_the_number_of_calls_varies_up_to_four(planner):
    counts = dict.fromkeys(range(5), 0)
    for conversation in planner:
        counts[sum(isinstance(action, Calls) for action in actions(conversation))] += 1
    assert all(count > MANY / 100 for count in counts.values())


def test_a_planner_asks_again_after_an_error(planner):
    seen = 0
    for conversation in planner:
        for turn, following in zip(conversation.turns, conversation.turns[1:], strict=False):
            if turn.results[0].state == "error":
                assert following.text == turn.text
                seen += 1
    assert seen


@pytest.mark.parametrize("role", ROLES)
def test_rows_fit_the_context_and_know_every_word(atlas, role, executor, planner):
    from shared.agents.chat import ChatFormat

    curriculum = atlas.curriculum(role)
    _, tokenizer = curriculum.from_scratch()
    chat = ChatFormat(tokenizer)
    for conversation in (executor if role == "executor" else planner)[:500]:
        row = render(chat, conversation)
        assert len(row.token_ids) == len(row.learned) <= MAX_TOKENS[role]
        assert tokenizer.unk_token_id not in row.token_ids
        assert any(row.learned)
        assert not row.learned[0]
    assert curriculum.limits.max_context_tokens <= MAX_TOKENS[role]
    assert isinstance(curriculum.limits, Limits)


def test_no_fact_of_validation_or_test_is_in_any_demonstration(atlas, world, executor, planner):
    """Titles of other splits may stand as the stranger that nothing mentions: a name, with no fact beside it."""
    strangers = {t for t, e in world.entities.items() if e.split != "train"}
    for conversation in executor:
        for turn in conversation.turns:
            if turn.results and turn.results[0].state == "ok" and turn.results[0].content.count(". "):
                title, facts = parse_article(turn.results[0].content)
                assert title not in strangers
                assert not strangers & set(facts.values())
    for conversation in planner:
        told = [turn.results[0].content.partition(": ")[2] for turn in conversation.turns if turn.results]
        asked = [the_call(action).arguments["task"] for action in actions(conversation) if isinstance(action, Calls)]
        assert not strangers & {*told, *map(name_of, asked), name_of(conversation.user)}


def name_of(question: str) -> str:
    while (first := question.partition(" of ")[0]) in (*ALL_RELATIONS, "name"):
        question = question.removeprefix(f"{first} of ")
    return question


def test_the_look_up_gate_of_both_roles_is_over_validation_names(atlas, world):
    titles = set(world.titles["validation"])
    for role in ROLES:
        words, (first, last) = vocabulary(world, role)
        lookup, rng = atlas.curriculum(role).lookup, random.Random(0)
        for _ in range(100):
            ids, learned = lookup(rng)
            asked = [words[token] for token, wanted in zip(ids, learned, strict=True) if wanted]
            assert asked
            if role == "planner":
                assert set(asked) <= titles
            else:
                opened = {words[token] for token in ids if first <= token < last} & set(world.entities)
                assert opened <= titles


@pytest.mark.parametrize("skewed", [True, False])
@pytest.mark.parametrize("role", ROLES)
def test_exercises_ask_only_for_names_that_stand_before(world, role, skewed):
    vocabulary_ = vocabulary(world, role)
    exercises = Exercises(vocabulary_)
    draw = exercises.executor if role == "executor" else exercises.planner
    first, last = vocabulary_.names
    rng = random.Random(0)
    for _ in range(300):
        ids, learned = draw(rng, skewed)
        assert len(ids) == len(learned)
        places = [place for place, wanted in enumerate(learned) if wanted]
        assert places
        for place in places:
            assert first <= ids[place] < last
            assert ids[place] in ids[:place]


def test_an_executors_exercise_asks_for_the_name_beside_the_key(world):
    words, _ = vocabulary(world, "executor")
    rng = random.Random(0)
    for _ in range(200):
        ids, learned = Exercises(vocabulary(world, "executor")).executor(rng, skewed=False)
        for place, wanted in enumerate(learned):
            if wanted:
                key = ids.index(ids[place - 1])
                assert words[ids[place - 1]].endswith(": ")
                assert ids[key + 1] == ids[place]


def test_skewed_exercises_have_few_frequent_keys(world):
    def shares(skewed):
        rng = random.Random(0)
        drawn = [Exercises(vocabulary(world, "executor")).executor(rng, skewed) for _ in range(400)]
        asked = [ids[p - 1] for ids, learned in drawn for p, wanted in enumerate(learned) if wanted]
        return sorted((asked.count(key) / len(asked) for key in set(asked)), reverse=True)

    assert shares(True)[0] > 0.3 > shares(False)[0]


def test_no_exercise_holds_a_fact(world):
    """Names are drawn without their relations: what stands under a title is true no more often than by chance."""
    vocabulary_ = vocabulary(world, "executor")
    rng, true, total = random.Random(0), 0, 0
    for _ in range(1000):
        ids, _ = Exercises(vocabulary_).executor(rng, skewed=False)
        words = [vocabulary_.words[i] for i in ids]
        entity = world.entities.get(words[2])
        for key, value in zip(words[4:14:3], words[5:15:3], strict=True):
            true += bool(entity and entity.facts.get(key.removesuffix(": ")) == value)
            total += 1
    assert total == 4000
    assert true <= 5
