"""Every rollout of a group is alike, and none delegates: nothing to learn, nothing trained, and the run goes on."""

import asyncio
from pathlib import Path

import pytest
from safetensors.torch import load_file

from shared.schemas.run import RunStatus
from shared.schemas.stream import StepStatistics
from tests.parity_environment import answer

from .trio import trio

STEPS = 3


@pytest.fixture(scope="module")
def run(postgres_url: str, redis_url: str, module_folder: Path) -> tuple[RunStatus, list[StepStatistics]]:
    async def record() -> tuple[RunStatus, list[StepStatistics]]:
        async with trio(postgres_url, redis_url, module_folder) as servers:
            await servers.start_executor({answer(2): 5.0})
            await servers.start_planner({answer(2): 5.0})
            await servers.declare(steps=STEPS)
            return await servers.finished(), await servers.client.steps(servers.run)

    return asyncio.run(record())


@pytest.mark.parametrize(("role", "reason"), [("planner", "all-dead"), ("executor", "empty-batch")])
def test_the_batch_is_skipped_with_its_reason(run, role: str, reason: str):
    steps = [step for step in run[1] if step.role == role]
    assert [(s.step, s.outcome, s.reason, s.updates) for s in steps] == [
        (step, "skipped", reason, 0) for step in range(1, STEPS + 1)
    ]


def test_dead_groups_are_counted_and_their_rows_named(run):
    steps = [step for step in run[1] if step.role == "planner"]
    assert all(step.statistics["groups_dead"] == 2 for step in steps)
    assert all(step.histograms["fates"] == {"dead-group": 8} for step in steps)
    assert {step.statistics["correct_mean"] for step in steps} == {0.5}


def test_skipped_steps_hold_nobody_and_the_run_finishes(run):
    status: RunStatus = run[0]
    assert status.groups == {"complete": 2 * STEPS}
    assert {role.acked_step for role in status.roles.values()} == {STEPS}


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_the_weights_stay_as_they_were(run, module_folder: Path, role: str):
    before = load_file(module_folder / role / "model" / "model.safetensors")
    after = load_file(module_folder / role / "checkpoints" / f"step-{STEPS}" / "model.safetensors")
    assert all((before[name] == after[name]).all() for name in before)
