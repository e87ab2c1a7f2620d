"""A fault in a demonstration and in an episode: what is shown, what is learned, and who is counted as recovered."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from shared.agents.loop import run_agent
from shared.agents.toolbox import Toolbox, failed
from shared.environments.base import ToolContext, ToolResult
from shared.policy.tokenizer import load_tokenizer
from shared.policy.types import Completion, SamplingParams
from shared.policy.warmup.conversation import Conversation, Turn
from shared.policy.warmup.faults import Fault, Injection, in_conversation
from shared.policy.warmup.lockstep import VERSION
from shared.policy.warmup.run import warm_up
from shared.policy.warmup.seat import take_seat
from tests.parity_environment import answer, call, save_model

OK = (ToolResult("ok", "3"),)
CONVERSATION = Conversation("2", (Turn("first", OK), Turn("second", OK), Turn("last")))
REFUSED = ToolResult("error", "There is no tool.")


def texts(conversation):
    return [turn.text for turn in conversation.turns]


def test_after_an_outage_the_same_call_is_made_again():
    shown = in_conversation(CONVERSATION, ["search", "open"], Fault("error", 1, outage=failed))
    assert texts(shown) == ["first", "second", "second", "last"]
    assert shown.turns[1].results == (ToolResult("error", "open failed."),)
    assert all(turn.learned for turn in shown.turns)


def test_a_mistake_is_shown_and_not_learned():
    mistake = Turn("wrong", (REFUSED,))
    shown = in_conversation(CONVERSATION, ["search", "open"], Fault("unknown-tool", 0, mistake=mistake))
    assert texts(shown) == ["wrong", "first", "second", "last"]
    assert [turn.learned for turn in shown.turns] == [False, True, True, True]


def test_a_fault_beyond_the_last_call_is_at_the_last_and_without_a_call_there_is_none():
    fault = Fault("error", 9, outage=failed)
    assert texts(in_conversation(CONVERSATION, ["search", "open"], fault)) == ["first", "second", "second", "last"]
    alone = Conversation("2", (Turn("last"),))
    assert in_conversation(alone, [], fault) == alone
    assert in_conversation(CONVERSATION, ["search"], None) == CONVERSATION


class Script:
    """A sampler at the wire: it writes these turns, whatever the prompt."""

    def __init__(self, chat, *turns):
        self._turns: Iterator = iter([chat.turn(turn) for turn in turns])

    async def generate(self, prompt_ids, params, *, checkpoint=None):
        ids = next(self._turns)
        return Completion(ids, [-1.0] * len(ids), VERSION, "stop")


@pytest.fixture
def seat(taught, tmp_path):
    folder = save_model(tmp_path / "start", "executor")
    return take_seat(taught, "executor", taught.curriculum("executor"), load_tokenizer(folder))


async def run(seat, injection, *turns):
    toolbox = Toolbox(injection.tools(seat.environment.tools())).bound(ToolContext("validation", "1", "2"))
    sampler = injection.sampler(Script(seat.chat, *turns), seat.chat)
    params, limits = SamplingParams(max_new_tokens=8), seat.curriculum.limits
    return await run_agent(sampler, seat.chat, toolbox, system="", user="2", limits=limits, params=params)


async def test_one_call_has_an_outage_and_the_others_reach_the_tool(seat):
    injection = Injection(Fault("error", 1, outage=failed))
    turns = [call("executor", 1), call("executor", 2), call("executor", 3), answer(3)]
    episode = await run(seat, injection, *turns)
    assert [c.result for c in episode.calls] == [ToolResult("ok", "1"), failed("echo"), ToolResult("ok", "3")]
    assert injection.happened


async def test_a_mistake_stands_in_the_place_of_the_models_turn_and_the_toolbox_answers_it(seat):
    injection = Injection(Fault("unknown-tool", 0, mistake=Turn(call("executor", 3))))
    episode = await run(seat, injection, call("executor", 1), answer(1))
    assert [c.result.content for c in episode.calls] == ["3", "1"]
    assert (episode.answer, injection.happened) == ("1", True)


async def test_an_episode_may_end_before_its_fault(seat):
    injection = Injection(Fault("error", 0, outage=failed))
    assert (await run(seat, injection, answer(1))).answer == "1"
    assert not injection.happened


def test_who_met_a_fault_is_counted_by_its_kind(taught, monkeypatch, tmp_path):
    curriculum = type(taught).curriculum

    def faulty(self, role):
        mistake = Fault("wrong", 0, mistake=Turn(call("executor", 1)))
        return replace(curriculum(self, role), fault=lambda rng, asked: mistake, right=lambda split, asked, said: 1.0)

    monkeypatch.setattr(type(taught), "curriculum", faulty)
    folder = save_model(tmp_path / "start", "executor", {"<answer>2</answer>": 3.0})
    result = warm_up(taught, "executor", tmp_path / "out", model_folder=folder)
    assert result["recovery"]["wrong"]["episodes"] == 200
    assert result["measured"]["recovery_format"] == result["recovery"]["wrong"]["format"] > 0
    assert result["measured"]["recovery_correct"] == result["measured"]["recovery_format"]
