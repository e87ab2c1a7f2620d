"""A user's mistake is one clear line on stderr and exit code 2, never a traceback."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import tomli_w

from executor_server.__main__ import main as executor_main
from planner_server.__main__ import main as planner_main
from shared.http.ports import free_port
from shared.lock import locked
from tests.parity_environment import TEMPLATE, save_model

from .trio import answers, tables

MAINS = {"planner": planner_main, "executor": executor_main}
STRIPS_THINKING = TEMPLATE.replace(
    "m.content", "(m.content.split('</think>')[-1] if m.role == 'assistant' else m.content)"
)


@pytest.fixture(autouse=True)
def _logs_of_the_test_alone() -> Iterator[None]:
    """What `main` configured must not log into this test's captured stderr later."""
    yield
    structlog.reset_defaults()


@pytest.fixture(params=["planner", "executor"])
def role(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def run(role: Any, tmp_path: Path, capfd: pytest.CaptureFixture) -> Callable[..., tuple[int, str]]:
    """Run the server's main with a sound configuration and what the test lays over it: exit code and last line."""

    def start(*arguments: str) -> tuple[int, str]:
        config = tables(role, "run", tmp_path, answers(), port=free_port())
        config["policy"]["model"], config["folder"] = str(config["policy"]["model"]), str(config["folder"])
        file = tmp_path / f"{role}.toml"
        file.write_text(tomli_w.dumps(config))
        code = MAINS[role](["--config", str(file), *arguments])
        error = capfd.readouterr().err
        assert "Traceback" not in error
        return code, (error.strip().splitlines() or [""])[-1]

    return start


def test_check_validates_and_exits(run):
    assert run("--check")[0] == 0


def test_a_check_imports_no_torch(role: Any, tmp_path: Path):
    """It takes three seconds, and the demo waits for the checks of both servers before it starts anything."""
    file = tmp_path / "config.toml"
    config = {"run": "r", "worker": "w", "port": 1, "auth": "loopback", "sync_url": "http://sync"}
    config |= {"folder": "here", "environment": "atlas"}
    others = {"executor_url": "http://executor"} if role == "planner" else {}
    file.write_text(tomli_w.dumps({**config, **others, "policy": {"model": "somewhere"}}))
    look = f"import sys; from {role}_server.__main__ import main; code = main(sys.argv[1:])"
    look += "; sys.exit(code or 10 * bool({'torch', 'transformers'} & sys.modules.keys()))"
    command = [sys.executable, "-c", look, "--config", str(file), "--check"]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("colour=red", "colour: unknown key"),
        ("port=none", "port"),
        ("policy.seed=99999999999999999999", "policy.seed"),
        ("policy.trainer.lr=-1", "policy.trainer.lr"),
        ("limits.max_turnz=3", "limits.max_turnz: unknown key"),
        ("policy.trainer.objective.ratio=sequence policy.trainer.objective.kl_coef=0.1", "kl_coef"),
        ("environment=atlantis", "atlantis"),
        ("sync_url=ftp://nowhere", "sync_url"),
        ("public_url=nowhere", "public_url"),
        ("sync_url=http://sync:99999", "sync_url"),
        ("environment_options.colour=red", "colour"),
        ("environment=tests.parity_environment:Nothing", "Nothing"),
    ],
)
def test_a_bad_configuration_is_named(run, override: str, named: str):
    code, line = run("--check", *override.split())
    assert (code, named in line) == (2, True), line


@pytest.mark.parametrize(
    ("override", "refuser"),
    [("limits.tool_timeout_s=3", "planner"), ("limits.deadline_s=1e6", "executor")],
)
def test_deadlines_that_would_make_a_failure_look_like_a_limit_are_refused(run, role: str, override: str, refuser: str):
    code, line = run("--check", override)
    assert (code, override.partition("=")[0] in line) == ((2, True) if role == refuser else (0, False)), line


def test_a_missing_file(role: str, capfd: pytest.CaptureFixture):
    assert MAINS[role](["--config", "/nowhere.toml"]) == 2
    assert "/nowhere.toml" in capfd.readouterr().err


def test_a_missing_model_folder(run):
    code, line = run("policy.model=/nowhere/model")
    assert (code, "there is no model folder /nowhere/model" in line) == (2, True), line


def test_a_template_that_breaks_the_prefix(run, role: Any, tmp_path: Path):
    save_model(tmp_path / "broken", role, template=STRIPS_THINKING)
    code, line = run(f"policy.model={tmp_path / 'broken'}")
    assert (code, "the prefix would break" in line) == (2, True), line


def test_a_port_in_use(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, line = run(f"port={port}")
    assert (code, f"cannot listen on 127.0.0.1:{port}" in line) == (2, True), line


def test_a_folder_in_which_another_server_works(run, role: str, tmp_path: Path):
    (tmp_path / role).mkdir(exist_ok=True)
    with locked(tmp_path / role):
        code, line = run()
    assert (code, f"another process works in {tmp_path / role}" in line) == (2, True), line


def test_a_folder_that_is_a_file(run, tmp_path: Path):
    (tmp_path / "file").write_text("")
    code, line = run(f"folder={tmp_path / 'file'}")
    assert (code, f"{tmp_path / 'file'}: File exists" in line) == (2, True), line
