"""One policy that delegates to itself: both seats sample from it, and the tree of a rollout is kept as a whole."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner_server.delegation import DELEGATE
from planner_server.executor import ExecutorFailed
from planner_server.reports import Reports
from planner_server.rollout import Roller, Rollout
from planner_server.team import Own
from shared.agents.chat import ChatFormat
from shared.agents.executor import ExecutorAgent
from shared.agents.limits import Limits
from shared.agents.protocol import render_answer
from shared.agents.toolbox import Toolbox
from shared.environments.base import Task
from shared.errors import DeadlineExceeded
from shared.ids import new_id
from shared.policy.store import TrajectoryStore
from shared.policy.types import Completion, SamplingParams
from shared.schemas.base import PolicyVersion
from shared.schemas.rollout import RolloutItem, RolloutReport
from shared.serving.submitter import Submitter
from tests.unit.agents.small_tokenizers import byte_level

TASK = Task(id="capital-7", query="What is the capital of France?", answer="Paris")
CHECKPOINT = Path("step-3")
CHAT = ChatFormat(byte_level())
DELEGATES = '<tool_call>{"name": "delegate", "arguments": {"task": "look up France"}}</tool_call>'
LOOKS_UP = '<tool_call>{"name": "lookup", "arguments": {"country": "France"}}</tool_call>'
TURNS = [DELEGATES, LOOKS_UP, render_answer("capital: Paris"), render_answer("Paris")]


class Scripted:
    """Writes the turns in their order, each by newer weights but the third; then it fails."""

    def __init__(self, turns: list[str]) -> None:
        self.left = list(zip(turns, (4, 5, 3, 6), strict=False))
        self.asked: list[tuple[str, int, float, Path | None]] = []

    async def generate(self, prompt_ids: Any, params: SamplingParams, *, checkpoint: Path | None = None) -> Completion:
        self.asked.append((CHAT.decode(prompt_ids), params.max_new_tokens, params.temperature, checkpoint))
        if not self.left:
            raise DeadlineExceeded("the sampler did not answer")
        turn, updates = self.left.pop(0)
        ids = CHAT.turn(turn)
        return Completion(ids, [-0.5] * len(ids), PolicyVersion(epoch=1, step=updates, updates=updates), "stop")


def lookup(country: str) -> str:
    """The article of a country."""
    return f"{country}: capital Paris"


async def roll_out(sampler: Any) -> Rollout:
    environment: Any = SimpleNamespace(
        name="capitals", system_prompt=lambda role: f"You are the {role}.", correctness=lambda task, answer: 1.0
    )
    limits = Limits(max_new_tokens=200, max_context_tokens=4000)
    own = ExecutorAgent(environment, sampler, CHAT, Toolbox({"lookup": lookup}), Limits(max_new_tokens=100))
    roller = Roller("r", environment, sampler, CHAT, DELEGATE, Own(own), limits)
    params = SamplingParams(max_new_tokens=200, temperature=0.5)
    return await roller.roll_out(TASK, "train", params, checkpoint=CHECKPOINT)


async def test_both_seats_sample_from_the_same_weights_each_by_its_own_limits_and_instructions():
    sampler = Scripted(TURNS)
    rollout = await roll_out(sampler)
    assert [asked[1:] for asked in sampler.asked] == [(n, 0.5, CHECKPOINT) for n in (200, 100, 100, 200)]
    seats = ["planner" if "You are the planner." in prompt else "executor" for prompt, *_ in sampler.asked]
    assert seats == ["planner", "executor", "executor", "planner"]
    assert "France: capital Paris" in sampler.asked[2][0]
    assert "capital: Paris" in sampler.asked[3][0]
    assert (rollout.calls, rollout.r_correct, len(rollout.episodes)) == (1, 1.0, 2)


async def test_the_version_of_a_rollout_is_that_of_the_oldest_token_of_its_tree():
    rollout = await roll_out(Scripted(TURNS))
    assert [episode.version.updates for episode in rollout.episodes] == [4, 3]
    assert rollout.version.updates == 3
    assert rollout.tokens == sum(len(episode.token_ids) for episode in rollout.episodes)


async def test_a_fault_of_the_sampler_in_a_delegation_gives_the_attempt_up_and_is_no_executors():
    with pytest.raises(DeadlineExceeded) as raised:
        await roll_out(Scripted(TURNS[:1]))
    assert not isinstance(raised.value, ExecutorFailed)


async def test_a_tree_and_its_report_are_there_after_a_restart(tmp_path: Path):
    rollout, unused = await roll_out(Scripted(TURNS)), Any
    before = TrajectoryStore(tmp_path / "t.sqlite", 2**24)
    reports = Reports(before, Submitter(unused, RolloutItem, before))  # ty: ignore[invalid-argument-type]
    fields = {"r_format": 1, "r_correct": 1.0, "version": rollout.version}
    report = RolloutReport(run="r", group=new_id(), slot=0, planner_trajectory=rollout.id, **fields)  # ty: ignore
    await reports.report(rollout.id, report, rollout)
    before.close()
    after = TrajectoryStore(tmp_path / "t.sqlite", 2**24)
    (delegation,) = rollout.delegations
    whole = await after.get_whole([rollout.id])
    assert {name: trajectory.role for name, trajectory in whole.items()} == {
        rollout.id: "planner",
        delegation.id: "executor",
    }
    assert whole[delegation.id].facts["request"]["rollout"] == rollout.id
    submitter = Submitter(unused, RolloutItem, after)  # ty: ignore[invalid-argument-type]
    await submitter.recover()
    assert submitter.pending == 1
    after.close()
