"""Ctrl-C, a killed server, a port in use: one clear line, nothing left behind, and `resume` goes on."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from tests.e2e.demo_process import LIMIT_S, TANDEM, Demo


def acked(run: Path) -> list[tuple[str, int]]:
    file = run / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(entry["step"]["role"], entry["step"]["step"]) for entry in lines if entry["kind"] == "step"]


def until_acked(demo: Demo, run: Path, step: int) -> None:
    """Both roles have acked that step, or a later one."""
    deadline = time.monotonic() + LIMIT_S
    while {role for role, acked_step in acked(run) if acked_step >= step} != {"planner", "executor"}:
        assert demo.process.poll() is None, demo.output
        assert time.monotonic() < deadline
        time.sleep(0.05)
    demo.children()


def watched(demo: Demo) -> dict:
    """What the command shows that the demo prints to watch it."""
    (command,) = re.findall(r"^watch: (.+)$", demo.output, flags=re.MULTILINE)
    environment = {**os.environ, "PATH": f"{TANDEM.parent}{os.pathsep}{os.environ['PATH']}"}
    words = ["bash", "-c", f"{command} --json"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["status"]


def test_ctrl_c_stops_all_and_resume_finishes(start, tmp_path: Path):
    run = tmp_path / "run"
    demo = start("run.steps=12", "planner.policy.checkpoints.every=2", "executor.policy.checkpoints.every=2")
    until_acked(demo, run, 2)
    trainer, planner = demo.worker("executor_server", "trainer"), demo.server("planner_server")
    trainer.suspend()  # so that the run does not come to its end before the signal, however long that takes
    assert watched(demo)["roles"]["planner"]["acked_step"] >= 2
    assert {file.stat().st_mode & 0o777 for file in (run / "keys").glob("*.key")} == {0o600}
    demo.process.send_signal(signal.SIGINT)
    assert psutil.wait_procs([planner], timeout=LIMIT_S)[1] == []
    with suppress(psutil.NoSuchProcess):
        trainer.resume()
    assert demo.wait() == 130, demo.output
    assert f"tandem resume {run}" in demo.output
    assert demo.left_behind() == []
    assert len(acked(run)) < 24

    again = Demo(tmp_path / "resume.log", "resume", run)
    assert again.wait() == 0, again.output
    assert again.left_behind() == []
    summary = json.loads((run / "summary.json").read_text())
    assert {role: sum(outcomes.values()) for role, outcomes in summary["steps"].items()} == {
        "planner": 12,
        "executor": 12,
    }
    assert set(Counter(acked(run))) == {(role, step) for role in ("planner", "executor") for step in range(1, 13)}


def test_a_killed_server_is_one_clear_line_with_the_end_of_its_log(start, tmp_path: Path):
    demo = start("run.steps=1000")
    until_acked(demo, tmp_path / "run", 1)
    demo.server("executor_server").kill()
    assert demo.wait() == 2
    assert "the executor server was killed by signal 9" in demo.output
    assert "executor.log" in demo.output
    assert "Traceback" not in demo.output
    assert demo.left_behind() == []


def test_a_port_in_use_is_named(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo = start(f"demo.sync_port={port}")
        assert demo.wait() == 2
    assert f"cannot listen on 127.0.0.1:{port}" in demo.output
    assert "Traceback" not in demo.output
