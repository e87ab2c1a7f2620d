"""The demo's presets and overrides."""

from pathlib import Path

import pytest
from rich.console import Console

from shared.cli.demo.conductor import conduct
from shared.cli.demo.services import Services
from shared.cli.demo.settings import load_settings
from shared.config import load, save
from shared.errors import UserError
from shared.lock import locked
from shared.schemas import ROLES
from shared.schemas.run import Budget


def test_the_presets_are_valid_and_smoke_is_smaller():
    full, smoke = load_settings("atlas", []), load_settings("smoke", [])
    assert smoke.spec().steps < full.spec().steps
    assert smoke.planner == full.planner
    assert not smoke.demo.learning_verdict


def test_an_override_reaches_the_run():
    settings = load_settings("atlas", ["run.steps=7", 'run.trained_roles=["planner"]'])
    assert settings.spec().steps == 7
    assert settings.spec().trained_roles == ("planner",)


def test_a_cost_per_call_is_three_overrides(tmp_path):
    reward = [
        "run.planner_reward.correct=0.7",
        "run.planner_reward.efficiency=0.2",
        "run.planner_reward.budget.calls=4",
    ]
    settings = load_settings("atlas", reward)
    coefficients = settings.spec().planner_reward
    assert (coefficients.terms, coefficients.budget) == (("efficiency",), Budget(calls=4))
    save(settings, tmp_path / "config.toml")
    assert load(type(settings), tmp_path / "config.toml").spec() == settings.spec()
    with pytest.raises(UserError, match=r"run\.planner_reward: .*must sum to 1, not 1\.2"):
        load_settings("atlas", reward[1:])


def test_auto_is_replaced_by_the_pilot():
    settings = load_settings("atlas", ["run.d_max=auto"])
    assert settings.spec(6).d_max == 6


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("run.stepz=7", "run.stepz"),
        ("run.steps=0", "run.steps"),
        ("demo.colour=red", "demo.colour: unknown key"),
        ("run.staleness=-1", "run.staleness"),
        ("run.min_rollouts=9", "min_rollouts must not exceed"),
        ("run.cutter=arrival", "goes with alignment 'none'"),
        ("run.planner_reward={format=0.5, correct=0.9}", "must sum to 1"),
    ],
)
def test_a_fault_names_its_key(assignment: str, named: str):
    with pytest.raises(UserError, match=named.replace("[", r"\[")):
        load_settings("atlas", [assignment])


def test_the_resolved_copy_is_the_same_run(tmp_path):
    settings = load_settings("atlas", ["run.steps=7"])
    save(settings, tmp_path / "config.toml")
    assert load(type(settings), tmp_path / "config.toml") == settings


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("planner.port=3", "planner.port is no setting of a demo"),
        ("executor.folder=/elsewhere", "executor.folder is no setting of a demo"),
        ("planner.policy.model=/elsewhere", "it is warmup.models.planner"),
    ],
)
def test_what_the_demo_sets_itself_is_refused_and_not_ignored(tmp_path: Path, assignment: str, named: str):
    services = Services(tmp_path, load_settings("smoke", [assignment]), dict.fromkeys(ROLES, tmp_path))
    with pytest.raises(UserError, match=named):
        services.write_config(assignment.partition(".")[0])  # ty: ignore[invalid-argument-type]


async def test_a_folder_in_which_another_demo_works_is_left_alone(tmp_path: Path):
    with locked(tmp_path), pytest.raises(UserError, match="another process works in"):
        await conduct(tmp_path, load_settings("smoke", []), Console())
    assert not (tmp_path / "config.toml").exists()


@pytest.mark.parametrize("name", ["my run", "_run", "n" * 70])
async def test_a_folder_whose_name_no_run_can_have_is_refused(tmp_path: Path, name: str):
    with pytest.raises(UserError, match="a run has its folder's name"):
        await conduct(tmp_path / name, load_settings("smoke", []), Console())


async def test_a_resumed_run_that_was_spoilt_is_refused_before_anything_starts(tmp_path: Path):
    spoilt = load_settings("smoke", []).model_copy(update={"run": {"steps": "x"}})
    with pytest.raises(UserError, match=r"run\.steps"):
        await conduct(tmp_path, spoilt, Console())
