"""The quick form of `make test-deploy`, as a process: it works in namespaces of its own."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.deploy.network import missing

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
@pytest.mark.skipif(missing() is not None, reason=missing() or "")
async def test_nothing_is_lost_when_hosts_are_cut_off_moved_and_upgraded():
    drill = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.deploy.drill", "--quick", cwd=ROOT, stdout=-1, stderr=-1
    )
    out, told = await drill.communicate()
    assert drill.returncode == 0, told.decode()
    found = json.loads(out.decode().splitlines()[-1])
    expected = {
        "hosts": 4,
        "cuts": 3,
        "rotations": 1,
        "moves": 1,
        "upgrades": 1,
        "lost": 0,
        "trained_twice": 0,
        "completed": True,
    }
    assert {key: found[key] for key in expected} == expected
    assert found["log_probs"], "the executor on its new host has compared nothing"
    assert all(gap["rows"] >= 1 and 0 < gap["stored_mean"] < 0.5 for gap in found["log_probs"])


def test_without_root_the_drill_says_so_and_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    from tests.deploy import drill

    monkeypatch.setattr("tests.deploy.network.os.geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["drill", "--quick"])
    assert drill.main() == drill.NO_NAMESPACES
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("test-deploy: network namespaces need")
    assert len(said.err.splitlines()) == 1
