"""`tandem` as a process: the dashboard of a run that has stopped, completion, exit codes."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.demo_process import ignore_interrupts

TANDEM = Path(sys.executable).parent / "tandem"


def tandem(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TANDEM, *words], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_run_that_has_stopped_is_served_until_ctrl_c(tmp_path: Path):
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(0o755)  # the database's account must reach its folder
    (tmp_path / "run" / "database").mkdir(parents=True)
    command = [TANDEM, "serve", tmp_path / "run", "--json"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, preexec_fn=ignore_interrupts) as served, ExitStack() as at_the_end:
        at_the_end.callback(served.kill)
        assert served.stdout is not None
        assert served.stderr is not None
        line = served.stdout.readline()
        assert line, served.stderr.read()
        url = json.loads(line)["url"]
        children = psutil.Process(served.pid).children(recursive=True)
        assert httpx.get(f"{url}/v1/runs", trust_env=False).json() == {"items": [], "next": None}
        assert "</html>" in httpx.get(url, trust_env=False, follow_redirects=True).text
        served.send_signal(signal.SIGINT)
        assert served.wait(60) == 130
    assert not [child for child in children if child.is_running()]


def test_what_cannot_be_served_is_one_line(tmp_path: Path):
    refused = tandem("serve", str(tmp_path))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "has no database of its own" in refused.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_each_shell(shell: str):
    script = tandem(_TANDEM_COMPLETE=f"source_{shell}")
    assert script.returncode == 0
    assert "_TANDEM_COMPLETE" in script.stdout


def test_commands_and_options_are_completed():
    first = tandem(COMP_WORDS="tandem sta", COMP_CWORD="1", _TANDEM_COMPLETE="complete_bash")
    assert first.stdout.split() == ["status"]
    option = tandem(COMP_WORDS="tandem audit --no", COMP_CWORD="2", _TANDEM_COMPLETE="complete_bash")
    assert option.stdout.split() == ["--no-whole-step"]


def test_a_wrong_command_line_is_one_line_that_names_the_help():
    for words in (("frob",), ("audit",), ("groups", "r1", "--step", "x")):
        wrong = tandem(*words)
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert wrong.stderr.startswith("tandem: ")
        assert wrong.stderr.rstrip().endswith("--help")
