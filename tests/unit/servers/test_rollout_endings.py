"""How a slot ends: a rollout, or aborted with the reason that says whose fault it was."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from planner_server import horizon
from planner_server.delegation import DELEGATE
from planner_server.executor import ExecutorFailed
from planner_server.rollout import Roller, Rollout
from planner_server.rollouts import RolloutLoop
from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.environments.base import Task
from shared.errors import DeadlineExceeded, UserError
from shared.ids import new_id
from shared.policy.types import SamplingParams
from shared.schemas.rollout import GroupView, RolloutReport
from shared.schemas.run import RunSpec, RunStatus
from tests.unit.agents.small_tokenizers import byte_level

TASK = Task(id="capital-7", query="What is the capital of France?", answer="Paris")
PARAMS = SamplingParams(max_new_tokens=50)


class Fake:
    """A roller whose attempts fail with `faults`, one each; then they hang.

    `states`: what the run's status says, one each, then the last one; saying so takes `pause_s`.
    """

    environment = SimpleNamespace(task=lambda split, seed, index: TASK)

    def __init__(self, faults: list[Exception], states: list[str], pause_s: float = 0.0) -> None:
        self.faults, self.states, self.pause_s = faults, states, pause_s
        self.attempts = 0
        self.reported: list[RolloutReport] = []

    async def roll_out(self, task: Task, split: str, params: SamplingParams) -> Rollout:
        self.attempts += 1
        if self.faults:
            raise self.faults.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def status(self, run: str, **_: Any) -> RunStatus:
        await asyncio.sleep(self.pause_s)
        state: Any = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return RunStatus(run="r", state=state, open_through=9, groups={}, rollouts={}, trajectories={}, roles={})

    async def report(self, rollout: str, report: RolloutReport, made: Rollout | None) -> None:
        self.reported.append(report)


async def reason(fake: Fake, deadline_s: float = 60.0) -> str | None:
    """Bring one slot to its end."""
    spec = RunSpec(steps=1, rollout_deadline_s=deadline_s)
    member = SimpleNamespace(run="r", doing={})
    parts: Any = (member, fake, spec, fake, PARAMS, fake.report)
    loop = RolloutLoop(*parts, places=1, attempts=2)
    view = GroupView.model_construct(group=new_id(), run="r", step=1, index=0, state="open", final_slots=())
    await loop._slot(view, 0)
    (report,) = fake.reported
    assert report.status == "aborted"
    return report.reason


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "FRESH_S", 0.0)


async def test_the_executors_fault_and_that_of_the_own_sampler_are_told_apart():
    assert await reason(Fake([ExecutorFailed(), ExecutorFailed()], ["running"])) == "executor-failed"
    assert await reason(Fake([DeadlineExceeded(), DeadlineExceeded()], ["running"])) == "sampler-failed"


async def test_an_attempt_that_hangs_is_aborted():
    assert await reason(Fake([], ["running"]), deadline_s=0.01) == "rollout-deadline"


async def test_the_deadline_does_not_run_while_the_run_is_paused():
    fake = Fake([ExecutorFailed(), ExecutorFailed()], ["paused", "paused", "running"], pause_s=0.05)
    assert await reason(fake, deadline_s=0.01) == "executor-failed"
    assert fake.attempts == 2


async def test_a_task_that_does_not_fit_the_planner_is_named():
    unused: Any = None
    environment: Any = SimpleNamespace(name="capitals", system_prompt=lambda role: "")
    limits = Limits(max_new_tokens=50, max_context_tokens=60)
    roller = Roller("r", environment, unused, ChatFormat(byte_level()), DELEGATE, unused, limits)
    with pytest.raises(UserError, match=r"task capital-7 does not fit limits\.max_context_tokens: the prompt has \d+"):
        await roller.roll_out(TASK, "train", PARAMS)
