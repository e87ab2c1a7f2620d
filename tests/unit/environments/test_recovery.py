"""The faults that demonstrations show: their texts are the toolbox's own, and each is one that the models can write."""

import random

import pytest

from shared.agents.protocol import Calls, parse
from shared.agents.toolbox import Toolbox
from shared.environments.atlas import Atlas
from shared.environments.atlas.recovery import OF_DELEGATIONS, OF_TOOLS
from shared.environments.base import ToolContext
from shared.policy.warmup.conversation import render
from shared.policy.warmup.seat import take_seat, tools_of

SEATS = [
    ("pair", "planner"),
    ("pair", "executor"),
    ("single", "planner"),
    ("unified", "planner"),
    ("unified", "executor"),
]


@pytest.fixture(scope="module")
def recovering():
    return Atlas(recovery=1.0)


def seat_of(atlas, team, role):
    environment = atlas.of_team(team)
    curriculum = environment.curriculum(role)
    return take_seat(environment, role, curriculum, curriculum.from_scratch()[1])


def drawn(seat, count=200):
    asked = "currency of country of Port of Spain" if seat.role == "planner" else "country of Port of Spain"
    rng = random.Random(0)
    return [seat.curriculum.fault(rng, asked) for _ in range(count)]


@pytest.mark.parametrize(("team", "role"), SEATS)
async def test_a_mistake_is_answered_as_it_is_shown(recovering, team, role):
    seat = seat_of(recovering, team, role)
    mistakes = [fault.mistake for fault in drawn(seat) if fault.mistake]
    assert mistakes
    for mistake in mistakes:
        action = parse(mistake.text)
        assert isinstance(action, Calls)
        (call,) = action.calls
        toolbox = seat.toolbox.bound(ToolContext("validation", "1", "2"))
        assert await toolbox.call(call.name, call.arguments) == mistake.results[0]


async def test_an_outage_is_what_the_toolbox_makes_of_it(recovering):
    async def search(query: str) -> str:
        raise TimeoutError if query == "slow" else RuntimeError

    toolbox, faults = Toolbox({"search": search}), drawn(seat_of(recovering, "pair", "executor"))
    outages = {fault.kind: fault.outage("search") for fault in faults if fault.outage}
    assert await toolbox.call("search", {"query": "slow"}) == outages["timeout"]
    assert await toolbox.call("search", {"query": "x"}) == outages["error"]


@pytest.mark.parametrize(("team", "role"), SEATS)
def test_every_kind_is_drawn(recovering, team, role):
    delegates = "delegate" in tools_of(recovering.of_team(team), role)
    kinds = {fault.kind for fault in drawn(seat_of(recovering, team, role))}
    assert kinds == set(OF_DELEGATIONS if delegates else OF_TOOLS)


@pytest.mark.parametrize(("team", "role"), SEATS)
def test_rows_with_a_fault_fit_and_know_every_word(recovering, team, role):
    seat, rng, faulty = seat_of(Atlas(recovery=1.0, hops=4), team, role), random.Random(2), 0
    tokenizer = seat.curriculum.from_scratch()[1]
    for _ in range(300):
        conversation = seat.curriculum.demonstration(rng)
        ids = render(seat.chat, conversation).token_ids
        assert tokenizer.unk_token_id not in ids
        assert len(ids) <= seat.curriculum.limits.max_context_tokens
        faulty += any(turn.results and turn.results[0].state != "ok" for turn in conversation.turns)
    assert faulty > 100  # a planner stops before its first call, too


def test_a_question_of_no_hops_has_no_place_for_a_fault(recovering):
    for team in ("pair", "single"):
        fault = seat_of(recovering, team, "planner").curriculum.fault
        assert all(fault(random.Random(seed), "name of Paris") is None for seed in range(20))


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_a_pair_that_was_told_of_no_faults_is_measured_with_those_that_it_can_write(role):
    seat = seat_of(Atlas(), "pair", role)
    for fault in drawn(seat):
        ids = seat.chat.turn(fault.mistake.text) if fault.mistake else []
        assert seat.chat.decode(ids) == (fault.mistake.text if fault.mistake else "")
