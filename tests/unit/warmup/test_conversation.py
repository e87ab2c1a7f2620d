"""A rendered demonstration has the very ids that a rollout with the same turns would have."""

import random

import pytest

from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import run_agent
from shared.agents.toolbox import Toolbox
from shared.environments.base import ToolError, ToolResult
from shared.policy.types import Completion, SamplingParams
from shared.policy.warmup.conversation import Conversation, Turn, render
from shared.policy.warmup.lockstep import VERSION
from shared.schemas.base import ROLES


class Script:
    """A sampler at the wire: it writes the turns of a conversation, whatever the prompt."""

    def __init__(self, chat, conversation):
        self._turns = [chat.turn(turn.text) for turn in conversation.turns]

    async def generate(self, prompt_ids, params, *, checkpoint=None):
        ids = self._turns.pop(0)
        return Completion(ids, [-1.0] * len(ids), VERSION, "stop")


@pytest.fixture(scope="module")
def atlas():
    from shared.environments.atlas import Atlas

    return Atlas()


@pytest.mark.parametrize("role", ROLES)
async def test_a_row_is_what_the_agents_loop_would_record(atlas, role):
    curriculum = atlas.curriculum(role)
    _, tokenizer = curriculum.from_scratch()
    chat, rng = ChatFormat(tokenizer), random.Random(3)
    compared = 0
    while compared < 50:
        conversation = curriculum.demonstration(rng)
        results = [turn.results[0] for turn in conversation.turns if turn.results]
        if (
            conversation.turns[-1].results
            or any(result.state == "limit" for result in results)
            or any(turn.results == () for turn in conversation.turns[:-1])
        ):
            continue  # it ends before an answer, or shows a limit that these limits do not have
        if not conversation.turns[-1].text.startswith("<answer>"):
            continue
        row = render(chat, conversation)
        episode = await run_agent(
            Script(chat, conversation),
            chat,
            replayed(role, results),
            system="",
            user=conversation.user,
            limits=Limits(max_new_tokens=8, max_context_tokens=200),
            params=SamplingParams(max_new_tokens=8),
        )
        assert episode.token_ids == row.token_ids
        wrong = [turn.learned for turn in conversation.turns].count(False)
        assert sum(episode.mask) - sum(row.learned) == wrong * 4
        compared += 1


def replayed(role, results) -> Toolbox:
    """Tools that give the results of the conversation, one after the other."""
    left = list(results)

    def next_result() -> ToolResult:
        result = left.pop(0)
        if result.state == "error" and result.content:
            raise ToolError(result.content)
        return result

    async def delegate(task: str) -> ToolResult:
        return next_result()

    async def search(query: str) -> ToolResult:
        return next_result()

    async def open_(title: str) -> ToolResult:
        return next_result()

    return Toolbox({"delegate": delegate} if role == "planner" else {"search": search, "open": open_})


def test_what_is_not_learned_is_shown_and_not_marked(atlas):
    _, tokenizer = atlas.curriculum("executor").from_scratch()
    chat = ChatFormat(tokenizer)
    bad = '<tool_call>{"name": "open", "arguments": {"title": "Paris"}}</tool_call>'
    result = (ToolResult("error", "none"),)
    conversation = Conversation("country of Paris", (Turn(bad, result, learned=False), Turn(bad)))
    row = render(chat, conversation)
    turn = chat.turn(bad)
    assert sum(row.learned) == len(turn)
    assert row.token_ids[-len(turn) :] == turn
    assert row.learned[-len(turn) :] == [True] * len(turn)
    assert row.token_ids.count(turn[1]) == 3  # asked for, opened wrongly, opened again


def test_several_results_follow_one_turn(atlas):
    _, tokenizer = atlas.curriculum("planner").from_scratch()
    chat = ChatFormat(tokenizer)
    two = (ToolResult("ok", "country: France"), ToolResult("error", ""))
    row = render(chat, Conversation("name of Paris", (Turn("<answer>Paris</answer>", two),)))
    assert tokenizer.decode(row.token_ids).count("<|tool|>") == 2
