"""Atlas through its tools and its two judgements."""

import pytest

from shared.agents.toolbox import Toolbox
from shared.environments.base import Task, ToolCall, ToolContext, ToolResult, Trace

PARIS = "Paris. time zone: Europe/Paris. country: France. neighbour: les Escaldes."
FRANCE = "France. capital: Paris. continent: Europe. currency: Euro."


@pytest.fixture
def tools(atlas):
    return Toolbox(atlas.tools()).bound(ToolContext("test", "task-1", "country of Paris"))


async def test_the_tools_are_search_open_and_calculate(atlas):
    schemas = {schema["name"]: schema["parameters"]["required"] for schema in Toolbox(atlas.tools()).schemas()}
    assert schemas == {"search": ["query"], "open": ["title"], "calculate": ["expression"]}


async def test_search_shows_titles(tools, world):
    result = await tools.call("search", {"query": "Paris"})
    assert result.state == "ok"
    shown = result.content.split("; ")
    assert "Paris" in shown
    assert all(world.entities[title].split == "test" for title in shown)


async def test_an_empty_search_is_none(tools):
    assert await tools.call("search", {"query": "Atlantis"}) == ToolResult("ok", "none")


async def test_open_shows_the_article_always_in_the_same_order(tools, world):
    first = await tools.call("open", {"title": "Paris"})
    assert first.state == "ok"
    assert first.content.startswith("Paris. ")
    assert all(f"{relation}: {value}." in first.content for relation, value in world.entities["Paris"].facts.items())
    assert await tools.call("open", {"title": "Paris"}) == first


@pytest.mark.parametrize("title", ["Atlantis", "", "paris"])
async def test_a_title_that_is_none_is_an_error(tools, title):
    assert await tools.call("open", {"title": title}) == ToolResult("error", "none")


async def test_an_article_of_another_split_cannot_be_opened_or_found(tools, world):
    title = world.titles["train"][0]
    assert (await tools.call("open", {"title": title})).state == "error"
    assert title not in (await tools.call("search", {"query": title})).content.split("; ")


async def test_calculate_answers_and_says_what_is_wrong(tools):
    assert await tools.call("calculate", {"expression": "6 * 7"}) == ToolResult("ok", "42")
    assert (await tools.call("calculate", {"expression": "six"})).state == "error"


@pytest.mark.parametrize(
    ("answer", "value"),
    [("France", 1.0), ("  france ", 1.0), ("FRANCE", 1.0), ("country: France", 0.0), ("Spain", 0.0), ("", 0.0)],
)
def test_correctness(atlas, answer, value):
    assert atlas.correctness(Task("t", "country of Paris", "France"), answer) == value


def opened(*articles: str, state: str = "ok") -> tuple[ToolCall, ...]:
    return tuple(ToolCall("open", {"title": text.split(".")[0]}, ToolResult(state, text)) for text in articles)


EXPERT = [
    # subtask, articles opened, answer, score
    ("country of Paris", [PARIS], "country: France", 1.0),
    ("country of Paris", [PARIS], "France", 1.0),
    ("country of Paris", [FRANCE, PARIS], "country: France", 1.0),
    ("What is the country of paris?", [PARIS], "France.", 1.0),
    ("country of Paris", [PARIS], "time zone: Europe/Paris", 0.5),
    ("country of Paris", [PARIS], "country: Spain", 0.5),
    ("country of Paris", [PARIS], "capital: France", 0.5),
    ("country of Paris", [FRANCE], "country: France", 0.0),
    ("capital of Lyon", [FRANCE], "capital: Paris", 0.5),
    ("country of Paris", [], "country: France", 0.0),
    ("country of Paris", [], "", 0.0),
    ("country of Atlantis", [PARIS], "country: France", 0.5),
    ("country of Atlantis", [PARIS], "country: Spain", 0.0),
    ("mayor of Paris", [PARIS], "France", 0.5),
    ("mayor of Paris", [PARIS], "Spain", 0.0),
    ("Paris", [PARIS], "Europe/Paris", 0.5),
    ("", [PARIS], "France", 0.5),
    ("", [], "France", 0.0),
]


@pytest.mark.parametrize(("subtask", "articles", "answer", "score"), EXPERT)
def test_expert_score(atlas, subtask, articles, answer, score):
    assert atlas.expert_score(Trace(subtask, opened(*articles), answer, "test")) == score


def test_what_was_searched_or_failed_to_open_counts_for_nothing(atlas):
    failed = ToolCall("open", {"title": "Paris"}, ToolResult("error", "none"))
    searched = ToolCall("search", {"query": "Paris"}, ToolResult("ok", PARIS))
    assert atlas.expert_score(Trace("country of Paris", (failed, searched), "country: France", "test")) == 0.0


def test_the_longest_title_is_the_one_that_is_named(atlas):
    guinea = ToolCall("open", {"title": "Guinea"}, ToolResult("ok", "Guinea. capital: Conakry."))
    assert atlas.expert_score(Trace("capital of Equatorial Guinea", (guinea,), "capital: Conakry")) == 0.5


def test_every_true_answer_from_the_named_article_scores_one(atlas, world):
    from shared.environments.atlas.articles import render_article

    for title, entity in world.entities.items():
        article = opened(render_article(title, entity.facts))
        for relation, value in entity.facts.items():
            trace = Trace(f"{relation} of {title}", article, f"{relation}: {value}", entity.split)
            assert atlas.expert_score(trace) == 1.0, (title, relation)


def test_only_models_that_do_not_know_the_tools_are_told(atlas):
    from shared.environments.atlas import Atlas

    assert (atlas.describe_tools, atlas.system_prompt("planner"), atlas.system_prompt("executor")) == (False, "", "")
    described = Atlas(describe_tools=True)
    assert described.describe_tools
    assert "delegating" in described.system_prompt("planner")
    assert "search" in described.system_prompt("executor")


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_a_model_that_is_told_learns_from_demonstrations_alone(role):
    """Exercises are ids of the demo's own tokenizers, and mean something else to any other model."""
    from shared.environments.atlas import Atlas

    curriculum = Atlas(describe_tools=True).curriculum(role)
    assert (curriculum.exercise, curriculum.lookup, curriculum.from_scratch) == (None, None, None)
    assert set(curriculum.thresholds) == {"format"}
    assert (curriculum.partner is None, curriculum.subtask is None) == (role == "executor", role == "planner")
