"""The demo's presets and overrides."""

import pytest

from shared.cli.demo.settings import load_settings
from shared.config import load, save
from shared.errors import UserError


def test_the_presets_are_valid_and_smoke_is_smaller():
    full, smoke = load_settings("atlas", []), load_settings("smoke", [])
    assert smoke.spec().steps < full.spec().steps
    assert smoke.planner == full.planner
    assert not smoke.demo.learning_verdict


def test_an_override_reaches_the_run():
    settings = load_settings("atlas", ["run.steps=7", 'run.trained_roles=["planner"]'])
    assert settings.spec().steps == 7
    assert settings.spec().trained_roles == ("planner",)


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
