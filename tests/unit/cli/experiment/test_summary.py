"""The summary: arms with their seeds, means and intervals; paired differences; `untrained` from step 0."""

import json
from pathlib import Path

import pytest

from shared.cli.experiment.definition import Comparison
from shared.cli.experiment.experiment import Experiment
from shared.cli.experiment.summary import compare, summarise
from shared.errors import UserError
from tests.unit.cli.experiment.results import leave, result

CO, FROZEN = "cotrain", "frozen-executor"
RESULTS = [result(CO, 11, 4), result(CO, 12, 3), result(FROZEN, 11, 2, before=2), result(FROZEN, 12, 2)]


def compared(of: str, less: str) -> dict:
    return compare(RESULTS, [Comparison(of=of, less=less)])["comparisons"][f"{of} - {less}"]


def chosen(folder: Path, **changed) -> Experiment:
    asked = {"folder": folder, "config": None, "arms": [CO], "seeds": [11], "setting": "easy", "smoke": True}
    return Experiment.chosen(**{**asked, "overrides": [], "command": "tandem experiment", **changed})


def test_an_arm_has_seeds_mean_and_interval():
    arm = compare(RESULTS, [])["arms"][CO]
    assert arm["seeds"] == [11, 12]
    assert arm["mean"] == pytest.approx(0.875)
    half = 12.7062 * 0.125  # t(0.975, 1) times the standard error of 1 and 0.75
    assert arm["interval"] == [pytest.approx(0.875 - half, abs=1e-4), pytest.approx(0.875 + half, abs=1e-4)]
    assert arm["by_seed"] == {"11": 1.0, "12": 0.75}
    assert arm["interval_over_tasks"]["11"][1] == 1.0


def test_untrained_is_step_0_of_the_jobs_of_a_seed():
    untrained = compare(RESULTS, [])["arms"]["untrained"]
    assert untrained["by_seed"] == {"11": pytest.approx((0.25 + 0.5) / 2), "12": 0.25}
    assert untrained["figures"]["calls"]["mean"] == 2


def test_a_team_with_models_of_its_own_has_an_untrained_of_its_own():
    arms = compare([*RESULTS, result("single", 11, 2, before=3, team="single")], [])["arms"]
    assert arms["untrained-single"]["mean"] == 0.75
    assert arms["untrained"]["seeds"] == [11, 12]


def test_a_difference_is_paired_by_seed():
    difference = compared(CO, FROZEN)
    assert difference["by_seed"] == {"11": 0.5, "12": 0.25}
    assert difference["mean"] == pytest.approx(0.375)
    assert difference["beyond_interval"] is False  # two seeds
    assert difference["figures"]["calls, 0 hops"]["mean"] == 0


def test_one_against_step_0():
    assert compared(CO, "untrained")["by_seed"] == {"11": 1 - 0.375, "12": 0.5}


def test_what_has_no_common_seed_is_not_compared():
    some = [result(CO, 11, 4), result(FROZEN, 12, 2)]
    assert compare(some, [Comparison(of=CO, less=FROZEN)])["comparisons"] == {}


def test_figures_of_the_training():
    figures = compare([result(CO, 11, 4)], [])["arms"][CO]["figures"]
    assert figures["dead groups, planner"]["mean"] == pytest.approx(3 / 8)
    assert figures["reward variance within rollouts, executor"]["mean"] == pytest.approx(0.1)
    assert figures["sampler-trainer gap, planner"]["mean"] == 0.01
    assert figures["sampled tokens"] == {"mean": 300, "interval": None}
    assert figures["trained tokens"]["mean"] == 100


def test_the_whole_is_of_all_that_is_done_in_the_folder_and_is_json(tmp_path: Path):
    leave(tmp_path, *RESULTS)
    summary = json.loads(json.dumps(summarise(chosen(tmp_path, seeds=[11, 13]), {"cotrain-13": "x"}), allow_nan=False))
    assert list(summary["arms"]) == [CO, FROZEN, "untrained"]
    assert summary["unfinished"] == ["cotrain-13"]
    assert summary["sources"] == [{"commit": "abc", "machine": "2 cores", "jobs": 4}]


def test_a_spoilt_result_is_named(tmp_path: Path):
    leave(tmp_path, result(CO, 11, 4))
    (tmp_path / "jobs" / "cotrain-11" / "result.json").write_text('{"arm": 3')
    with pytest.raises(UserError, match=r"result\.json is spoilt"):
        chosen(tmp_path).results()
