"""`tandem warmup` as a process: JSON lines, exit codes, one clear line for a mistake."""

import json
import subprocess
import sys

import pytest

from tests.parity_environment import save_model

TAUGHT = "tests.unit.warmup.conftest:Taught"


def tandem(*arguments):
    command = [sys.executable, "-m", "shared.cli.main", "warmup", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("start"), "planner")


def test_events_as_json_lines(start, tmp_path):
    done = tandem("--environment", TAUGHT, "--role", "planner", "--model", start, "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["event"] for event in events[:-1]} == {"progress"}
    assert set(events[0]) == {"event", "role", "step", "phase", "lookup", "loss", "fraction"}
    assert events[-1]["event"] == "done"
    assert events[-1]["measured"] == json.loads((tmp_path / "warmup.json").read_text())["measured"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--role", "planner", "--environment", "atlantis"], 2, "tandem: unknown environment 'atlantis'"),
        (["--role", "planner", "--environment", TAUGHT], 2, "tandem: environment taught makes no model of its own"),
        (["--role", "judge"], 2, "'judge' is none of planner, executor"),
        ([], 2, "None is none of planner, executor"),
        (["--team", "trio"], 2, "'trio' is none of pair, single, unified"),
        (["--team", "single", "--role", "executor"], 2, "the model of the team single has no role but planner"),
        (["--role", "planner", "--option", "sped=1"], 2, "unexpected keyword argument 'sped'"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, code, message, tmp_path):
    done = tandem("--out", tmp_path, *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_gate_that_fails_is_exit_code_three(start, tmp_path):
    done = tandem(
        "--environment", f"{TAUGHT}Strictly", "--role", "planner", "--model", start, "--out", tmp_path, "--json"
    )
    assert done.returncode == 3
    assert done.stderr.strip().splitlines()[-1].startswith("tandem: warm-up of the planner: format ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "warmup.json").exists()
