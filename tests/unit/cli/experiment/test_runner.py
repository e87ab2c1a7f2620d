"""The jobs one after another: none twice, and what fails ends no other one."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from shared.cli.demo.conductor import bars
from shared.cli.demo.settings import Settings
from shared.cli.demo.stage1 import GateFailed
from shared.cli.experiment import runner
from shared.cli.experiment.definition import load_definition
from shared.cli.experiment.plan import Job, plan
from shared.cli.experiment.result import JobResult
from shared.errors import UserError
from tests.unit.cli.experiment.results import result

ARMS = ("cotrain", "frozen-executor", "single")


class Machine:
    """In the place of the servers and the warm-ups: what was run, and what fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.warmed: list[str] = []
        self.fails: dict[str, Exception] = {}

    async def warm_up(self, folder: Path, settings: Settings, progress: Progress) -> dict[str, Path]:
        self.warmed.append(folder.name)
        if folder.name in self.fails:
            raise self.fails[folder.name]
        return {"planner": folder}

    async def run_job(self, job: Job, models: dict[str, Path], progress: Progress) -> JobResult:
        self.ran.append(job.name)
        assert models == {"planner": job.start}
        if job.name in self.fails:
            raise self.fails[job.name]
        job.folder.mkdir(parents=True, exist_ok=True)
        made = result(job.arm, job.seed, 3)
        made.write(job.folder)
        return made


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(runner, "warm_up", made.warm_up)
    monkeypatch.setattr(runner, "run_job", made.run_job)
    return made


async def run(folder: Path, told: list[Any] | None = None) -> dict[str, str]:
    jobs = plan(load_definition(), folder, arms=ARMS, seeds=[11, 12], setting="easy")
    with bars(Console(quiet=True)) as progress:
        return await runner.run_jobs(jobs, progress, lambda: (told if told is not None else []).append(1))


async def test_what_is_done_is_not_run_again(machine: Machine, tmp_path: Path):
    told: list[Any] = []
    assert await run(tmp_path, told) == {}
    assert machine.ran == [f"{arm}-{seed}" for seed in (11, 12) for arm in ARMS]
    assert len(told) == 6
    assert await run(tmp_path) == {}
    assert len(machine.ran) == 6


async def test_a_job_that_fails_ends_no_other_and_is_told(machine: Machine, tmp_path: Path):
    machine.fails = {
        "cotrain-11": ExceptionGroup("side", [UserError("the run failed: bad-reward")]),
        "frozen-executor-12": RuntimeError("boom"),
    }
    failures = await run(tmp_path)
    assert failures == {"cotrain-11": "the run failed: bad-reward", "frozen-executor-12": "RuntimeError('boom')"}
    assert len(machine.ran) == 6
    machine.fails = {}
    assert await run(tmp_path) == {}
    assert machine.ran[6:] == ["cotrain-11", "frozen-executor-12"]


async def test_models_that_do_not_warm_up_fail_their_arms_and_are_tried_once(machine: Machine, tmp_path: Path):
    machine.fails = {"pair-11": GateFailed("look-up 0.5, at least 0.9 is needed")}
    failures = await run(tmp_path)
    assert set(failures) == {"cotrain-11", "frozen-executor-11"}
    assert "look-up 0.5" in failures["frozen-executor-11"]
    assert machine.warmed.count("pair-11") == 1
    assert machine.ran == ["single-11", "cotrain-12", "frozen-executor-12", "single-12"]


async def test_being_stopped_is_no_failure_of_a_job(machine: Machine, tmp_path: Path):
    machine.fails = {"cotrain-11": KeyboardInterrupt()}  # ty: ignore[invalid-assignment]
    with pytest.raises(KeyboardInterrupt):
        await run(tmp_path)
    assert machine.ran == ["cotrain-11"]


def test_what_a_job_came_to_is_told():
    assert runner.told(result("cotrain", 11, 3)) == "accuracy 0.250 -> 0.750, in 60 s"
