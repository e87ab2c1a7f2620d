"""The command line: the plan as JSON, mistakes in one line."""

import json
import sys
from pathlib import Path

import pytest

from shared.cli.main import main


@pytest.fixture
def tandem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run `tandem experiment` in an empty folder; its exit code."""

    def run(*arguments: str) -> int:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["tandem", "experiment", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


def test_the_plan_says_what_would_run_and_makes_nothing(tandem, tmp_path: Path, capsys: pytest.CaptureFixture):
    assert tandem("--plan", "--json", "--arms", "single,cotrain", "--seeds", "3,4,3") == 0
    told = json.loads(capsys.readouterr().out)
    assert [job["job"] for job in told["jobs"]] == ["cotrain-3", "single-3", "cotrain-4", "single-4"]
    assert told["remaining_seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_smoke_run_has_every_arm_once(tandem, capsys: pytest.CaptureFixture):
    assert tandem("--plan", "--smoke") == 0
    assert "7 jobs, 0 done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--seeds", "1,x"), "'1,x' is no list"),
        (("--seeds", ""), "is no list"),
        (("--arms", "best"), "there is no arm 'best'"),
        (("--setting", "trivial"), "there is no setting 'trivial'"),
        (("--config", "nowhere.toml"), "nowhere.toml"),
        (("run.seed=3",), "run.seed is no setting of an experiment"),
        (("run.stepz=3",), "run.stepz"),
    ],
)
def test_a_mistake_is_one_line(tandem, arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture):
    assert tandem("--plan", *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
