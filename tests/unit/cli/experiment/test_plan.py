"""The jobs: their order, their states, what is left, and that none of other settings is gone on with."""

from pathlib import Path

import pytest

from shared.cli.experiment.definition import load_definition
from shared.cli.experiment.plan import Job, check_settings, check_start, plan, remaining_s
from shared.config import save
from shared.errors import UserError
from tests.unit.cli.experiment.results import leave, result


def jobs(folder: Path, *overrides: str, arms: tuple[str, ...] = ("cotrain", "frozen-executor")) -> list[Job]:
    return plan(load_definition(), folder, arms=arms, seeds=[11, 12], setting="easy", overrides=overrides)


def test_seed_by_seed_so_that_what_is_done_is_in_pairs(tmp_path: Path):
    assert [job.name for job in jobs(tmp_path)] == [
        "cotrain-11",
        "frozen-executor-11",
        "cotrain-12",
        "frozen-executor-12",
    ]


def test_the_arms_of_a_team_and_a_seed_start_from_the_same_models(tmp_path: Path):
    starts = {job.name: job.start.name for job in jobs(tmp_path, arms=("cotrain", "frozen-executor", "single"))}
    assert starts["cotrain-11"] == starts["frozen-executor-11"] == "pair-11"
    assert starts["single-11"] == "single-11"
    assert starts["cotrain-12"] == "pair-12"


def test_a_job_is_done_once_its_result_is_there(tmp_path: Path):
    first, second, third, _ = jobs(tmp_path)
    leave(tmp_path, result("cotrain", 11, 3))
    second.folder.mkdir()
    assert [job.state for job in (first, second, third)] == ["done", "begun", "to do"]


def test_what_is_left_takes_as_long_as_what_is_done_took(tmp_path: Path):
    leave(tmp_path, result("cotrain", 11, 3))
    (tmp_path / "jobs" / "cotrain-11" / "seconds.json").write_text('{"training": 90.0, "job": 100.0}')
    assert remaining_s(jobs(tmp_path)) == pytest.approx(300.0)


def test_before_any_is_done_there_is_a_guess(tmp_path: Path):
    assert remaining_s(jobs(tmp_path)) > remaining_s(jobs(tmp_path, "run.steps=2")) > 0


def test_a_job_of_other_settings_is_not_gone_on_with(tmp_path: Path):
    job = jobs(tmp_path)[0]
    models = job.settings.warmup.model_copy(update={"models": {"planner": Path("/somewhere")}})
    save(job.settings.model_copy(update={"warmup": models}), job.folder / "config.toml")
    check_settings(jobs(tmp_path))
    with pytest.raises(UserError, match="cotrain-11 holds a job of other settings"):
        check_settings(jobs(tmp_path, "run.steps=7"))


def test_models_of_another_warm_up_are_not_started_from(tmp_path: Path):
    job = jobs(tmp_path)[0]
    save(job.settings, job.start / "config.toml")
    check_start(jobs(tmp_path, "run.steps=7")[0])
    with pytest.raises(UserError, match="pair-11 holds models of other settings"):
        check_start(jobs(tmp_path, "warmup.steps=7")[0])
