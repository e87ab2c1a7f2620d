"""Atlas's options: longer chains, an expert that knows less, demonstrations with fewer bad choices."""

import random

import pytest

from shared.agents.protocol import parse
from shared.environments.atlas import Atlas
from shared.environments.atlas.demonstrations import executor_demonstration
from shared.environments.atlas.habits import Habits
from shared.environments.atlas.tasks import CHAINS, first_step
from shared.environments.base import ToolCall, ToolResult, Trace
from shared.errors import UserError

PARIS = "Paris. time zone: Europe/Paris. country: France. neighbour: London."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 5}, "hops is 5; it is 1 to 4"),
        ({"hops": "four"}, "hops is 'four'; it is 1 to 4"),
        ({"recovery": 1.5}, "recovery is 1.5; it is a share, 0 to 1"),
        ({"executor_errors": True}, "executor_errors is True; it is a share, 0 to 1"),
        ({"expert": "kind"}, "expert is 'kind'; it is exact or grounded"),
    ],
)
def test_a_value_out_of_range_is_named(options, message):
    with pytest.raises(UserError, match=message):
        Atlas(**options)


def test_hops_bounds_the_chains():
    for most in (1, 4):
        atlas = Atlas(hops=most)
        hops = {atlas.task("validation", 0, index).metadata["hops"] for index in range(200)}
        assert hops == set(range(most + 1))


def test_no_relation_stands_twice_in_a_chain():
    chains = [chain for of_kind in CHAINS.values() for of_hops in of_kind.values() for chain in of_hops]
    assert all(len(set(chain)) == len(chain) for chain in chains)


def test_the_limits_leave_one_call_more_than_the_longest_chain_needs():
    for most in (3, 4):
        atlas = Atlas(hops=most)
        assert atlas.curriculum("planner").limits.max_calls == most + 1
        assert atlas.of_team("single").curriculum("planner").limits.max_calls == 2 * (most + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("currency of country of Port of Spain", (2, "country of Port of Spain")),
        ("time zone of Paris", (1, "time zone of Paris")),
        ("name of Paris", (0, "")),
    ],
)
def test_the_first_step_of_a_question(text, expected):
    assert first_step(text) == expected


@pytest.mark.parametrize(
    ("answer", "exact", "grounded"),
    [("country: France", 1.0, 1.0), ("time zone: Europe/Paris", 0.5, 1.0), ("country: Spain", 0.5, 0.0)],
)
def test_a_grounded_expert_does_not_know_what_was_asked(answer, exact, grounded):
    trace = Trace("country of Paris", (ToolCall("open", {"title": "Paris"}, ToolResult("ok", PARIS)),), answer, "test")
    assert Atlas().expert_score(trace) == exact
    assert Atlas(expert="grounded").expert_score(trace) == grounded


def test_without_errors_an_executor_opens_what_is_named_and_reads_what_is_asked(atlas):
    rng, seen = random.Random(0), 0
    for _ in range(300):
        conversation = executor_demonstration(atlas.world, atlas.indexes["train"], rng, Habits(executor_errors=0.0))
        relation, _, name = conversation.user.partition(" of ")
        opened, last = conversation.turns[-2:]
        if opened.results[0].state == "ok" and opened.results[0].content != "none":
            assert opened.results[0].content.startswith(f"{name}. ")
            assert parse(last.text).text.startswith(f"{relation}: ")
            seen += 1
    assert seen > 200
