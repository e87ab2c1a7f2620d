"""The word-level tokenizers: exact round trips over all that the environment renders, short turns, no injection."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from shared.agents.chat import ChatFormat
from shared.agents.loop import NOTICES
from shared.agents.protocol import parse, render_answer, render_result
from shared.environments.atlas.articles import NOTHING, render_article
from shared.environments.atlas.demonstrations import call
from shared.environments.atlas.instructions import instructions
from shared.environments.atlas.tasks import CHAINS, ask
from shared.environments.atlas.tokenizer import SPECIAL, SYSTEM, Speaker, build_tokenizer, vocabulary
from shared.environments.atlas.world import load_world
from shared.environments.base import SPLITS, ToolResult
from shared.schemas.base import ROLES

WORLD = load_world()
SPEAKERS: tuple[Speaker, ...] = (*ROLES, "one")
TOKENIZERS = {speaker: build_tokenizer(WORLD, speaker) for speaker in SPEAKERS}


def encode(role, text):
    return TOKENIZERS[role].encode(text, add_special_tokens=False, split_special_tokens=True)


def questions():
    return [ask(t, *chain) for t, e in WORLD.entities.items() for chains in CHAINS[e.kind].values() for chain in chains]


def results():
    states = [ToolResult("error", NOTHING), ToolResult("error", ""), ToolResult("ok", NOTHING)]
    return [render_result(r) for r in states + [ToolResult("limit", notice) for notice in NOTICES.values()]]


def planner_texts():
    yield from questions()
    yield from results()
    for entity in WORLD.entities.values():
        for relation, value in entity.facts.items():
            yield call("delegate", "task", ask(entity.title, relation))
            yield render_result(ToolResult("ok", f"{relation}: {value}"))
            yield render_result(ToolResult("limit", f"{relation}: {NOTHING}"))
            yield render_answer(value)


def executor_texts(atlas):
    yield from results()
    for entity in WORLD.entities.values():
        yield call("search", "query", entity.title)
        yield call("open", "title", entity.title)
        yield render_result(ToolResult("ok", render_article(entity.title, entity.facts)))
        for relation, value in entity.facts.items():
            yield ask(entity.title, relation)
            yield render_answer(f"{relation}: {value}")
    for split in SPLITS:
        for title in WORLD.titles[split]:
            yield render_result(ToolResult("ok", "; ".join(atlas.indexes[split].shown(title, "task"))))


def test_every_text_of_the_planner_survives():
    texts = list(planner_texts())
    assert len(texts) > 10_000
    check_round_trips("planner", texts)


def test_every_text_of_the_executor_survives(atlas):
    texts = list(executor_texts(atlas))
    assert len(texts) > 9_000
    check_round_trips("executor", texts)


def check_round_trips(role, texts):
    tokenizer = TOKENIZERS[role]
    for text in texts:
        ids = encode(role, text)
        assert tokenizer.unk_token_id not in ids, text
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_one_model_has_the_words_of_both(atlas):
    check_round_trips("one", [*planner_texts(), *executor_texts(atlas)])
    thought = "<think>country: France. currency of France</think>" + call("search", "query", "France")
    told = [instructions("unified", role, described=False) for role in ROLES]
    check_round_trips("one", [thought, *told])
    assert [len(encode("one", text)) for text in told] == [1, 1]
    assert TOKENIZERS["one"].convert_tokens_to_ids(SYSTEM) not in encode("one", f"{SYSTEM} Paris")


def test_a_name_is_one_token():
    for role in SPEAKERS:
        first, last = vocabulary(WORLD, role).names
        for name in WORLD.names:
            (token,) = encode(role, name)
            assert first <= token < last


@pytest.mark.parametrize(
    ("role", "text", "length"),
    [
        ("planner", call("delegate", "task", "country of Paris"), 5),
        ("planner", render_answer("France"), 4),
        ("executor", call("search", "query", "Port of Spain"), 4),
        ("executor", call("open", "title", "Paris"), 4),
        ("executor", render_answer("time zone: Europe/Paris"), 5),
    ],
)
def test_a_turn_has_four_or_five_tokens(role, text, length):
    assert len(ChatFormat(TOKENIZERS[role]).turn(text)) == length


def test_the_vocabularies_differ():
    planner, executor = (vocabulary(WORLD, role) for role in ROLES)
    assert len(planner.words) != len(executor.words)
    assert set(planner.words) ^ set(executor.words)
    places = [role.words.index("Paris") for role in (planner, executor)]
    assert places[0] != places[1]


@pytest.mark.parametrize("role", SPEAKERS)
def test_ids_are_the_places_in_the_vocabulary(role):
    words = vocabulary(WORLD, role).words
    assert [TOKENIZERS[role].convert_ids_to_tokens(i) for i in range(len(words))] == list(words)
    assert len(TOKENIZERS[role]) == len(words)


@pytest.mark.parametrize("role", SPEAKERS)
def test_a_saved_tokenizer_is_the_same(role, tmp_path):
    TOKENIZERS[role].save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    texts = [*questions()[:500], *SPECIAL, "what is this?"]
    assert loaded.chat_template == TOKENIZERS[role].chat_template
    assert [loaded.encode(text) for text in texts] == [TOKENIZERS[role].encode(text) for text in texts]
    assert (loaded.pad_token, loaded.eos_token, loaded.unk_token) == ("<pad>", "<|end|>", "<unk>")


@pytest.mark.parametrize("role", SPEAKERS)
def test_the_chat_template_only_appends(role):
    chat = ChatFormat(TOKENIZERS[role])
    chat.check()
    assert chat.stop_ids == (TOKENIZERS[role].eos_token_id,)


@pytest.mark.parametrize("role", SPEAKERS)
@given(parts=st.lists(st.sampled_from([*SPECIAL, "Paris", "none", " ", "<", "|", "end", "x", ". ", "é", "\n"])))
def test_no_text_becomes_a_special_token(role, parts):
    special = {TOKENIZERS[role].convert_tokens_to_ids(mark) for mark in SPECIAL}
    assert not special & set(encode(role, "".join(parts)))


@given(st.lists(st.integers(0, 1200), max_size=8))
def test_any_sampled_ids_decode_and_parse(ids):
    for role in SPEAKERS:
        parse(ChatFormat(TOKENIZERS[role]).decode(ids))  # never raises


def test_pieces_are_found_wherever_a_name_begins_with_one():
    rng = random.Random(0)
    for _ in range(300):
        a, b = rng.sample(WORLD.names, 2)
        assert len(encode("executor", f"{a}; {b}. country: {a}.")) == 7
