"""The README's walk-through with curl, as it stands, against a sync service that is a real process."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.http.ports import free_port
from shared.process import Service
from tests.integration.docs.markdown import ROOT, blocks

START_S = 60.0
URL = "http://127.0.0.1:7070"
WALK = [block for block in blocks(ROOT / "README.md", "bash") if URL in block.text]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a sync service of our own, with an empty database."""
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "sync_service", "--auth", "loopback", "--port", str(port)]
    command += ["--embedded", str(tmp_path / "data")]
    service = Service("sync service", command, tmp_path / "sync.log")
    try:
        deadline = time.monotonic() + START_S
        while not ready(service, f"http://127.0.0.1:{port}/readyz"):
            assert time.monotonic() < deadline, service.log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        service.stop()


def ready(service: Service, url: str) -> bool:
    assert service.exit_code is None, service.obituary()
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def answers(script: str, folder: Path) -> list[Any]:
    """What the script's calls printed; an empty line is a 204."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return [json.loads(line or "null") for line in result.stdout.splitlines()]


def test_the_walk_through_ends_in_a_finished_run(url: str, tmp_path: Path):
    (walk,) = WALK
    script = walk.text.replace(URL, url)
    printed = answers(script, tmp_path)
    *_, group, status, planner_epoch, planner, executor_epoch, executor, planner_ack, executor_ack, run = printed
    assert (group["state"], group["scoring"], group["final_slots"]) == ("complete", "sealed", [0, 1])
    assert [status["roles"][role]["ready"] for role in ("planner", "executor")] == [1, 1]
    assert (planner_epoch, executor_epoch) == ({"epoch": 1}, {"epoch": 1})
    assert [r["r_correct"] for r in planner["delivery"]["groups"][0]["rollouts"]] == [1.0, 0.0]
    (scored,) = executor["delivery"]["groups"][0]["rollouts"][0]["executor_trajectories"]
    assert (scored["state"], scored["r_expert"]) == ("scored", 0.8)
    assert (planner_ack, executor_ack, run["state"]) == (None, None, "finished")
    fates = [(item["role"], item["outcome"]) for item in httpx.get(f"{url}/v1/runs/{run['run']}/steps").json()["items"]]
    assert fates == [("executor", "skipped"), ("planner", "trained")]
