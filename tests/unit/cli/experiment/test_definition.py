"""The arms that are shipped, and what a file of arms may say."""

from pathlib import Path

import pytest

from shared.cli.experiment.definition import Definition, load_definition
from shared.errors import UserError

SHIPPED = load_definition()
ARMS = ["cotrain", "frozen-executor", "unsynchronised", "single", "unified", "expected", "efficiency"]


def test_the_papers_arms_are_there_and_compared():
    assert list(SHIPPED.arms) == ARMS
    assert {"cotrain - frozen-executor", "cotrain - unsynchronised", "frozen-executor - single"} <= {
        str(comparison) for comparison in SHIPPED.comparisons
    }


@pytest.mark.parametrize("setting", SHIPPED.settings)
@pytest.mark.parametrize("arm", ARMS)
def test_all_arms_have_the_same_rollouts(arm: str, setting: str):
    specs = [
        SHIPPED.job_settings(name, setting, 12, smoke=False, overrides=["run.steps=7"]).spec()
        for name in ("cotrain", arm)
    ]
    assert len({(s.steps, s.groups_per_step, s.rollouts_per_group, s.seed, s.staleness) for s in specs}) == 1
    assert (specs[1].steps, specs[1].seed) == (7, 12)


def test_an_arm_is_what_it_says():
    made = {arm: SHIPPED.job_settings(arm, "easy", 11, smoke=True, overrides=[]) for arm in ARMS}
    assert made["frozen-executor"].executor["trains"] is False
    assert made["unsynchronised"].spec().cutter == "arrival"
    assert made["expected"].spec().alignment == "expected"
    assert made["efficiency"].spec().planner_reward.terms == ("efficiency",)
    assert made["single"].roles == made["unified"].roles == ("planner",)
    assert {settings.warmup.seed for settings in made.values()} == {11}


@pytest.mark.parametrize("override", ["run.seed=3", "warmup.seed=3", "warmup.models.planner=x"])
def test_what_an_experiment_sets_itself_is_refused(override: str):
    with pytest.raises(UserError, match=override.partition("=")[0]):
        SHIPPED.job_settings("cotrain", "easy", 11, smoke=False, overrides=[override])


def test_an_arm_or_setting_that_there_is_not_is_named():
    with pytest.raises(UserError, match=r"there is no arm 'best'; there are cotrain,"):
        SHIPPED.chosen(["best"])
    with pytest.raises(UserError, match="there is no setting 'trivial'"):
        SHIPPED.check_setting("trivial")
    assert SHIPPED.chosen(["single", "cotrain"]) == ["cotrain", "single"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[arms.a]\nabout='x'\ncolour.red=1\n[settings.easy]", "arms.a.colour: unknown key"),
        ("[arms.a]\nabout='x'\n[settings.easy]\n[[comparisons]]\nof='a'\nless='b'", "b: no such arm"),
        ("[arms.untrained]\nabout='x'\n[settings.easy]", "untrained: no such arm"),
    ],
)
def test_a_fault_in_a_file_is_named(text: str, named: str, tmp_path: Path):
    (tmp_path / "arms.toml").write_text(text)
    with pytest.raises(UserError, match=named):
        load_definition(tmp_path / "arms.toml")


def test_a_key_of_an_arm_that_a_run_does_not_have_is_named(tmp_path: Path):
    made = Definition.model_validate({"arms": {"a": {"about": "x", "run": {"stepz": 1}}}, "settings": {"easy": {}}})
    with pytest.raises(UserError, match=r"run\.stepz"):
        made.job_settings("a", "easy", 11, smoke=False, overrides=[])
