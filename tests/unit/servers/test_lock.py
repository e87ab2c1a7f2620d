"""A folder is worked in by one process: two servers, or two starts of one demo, would spoil each other's files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.errors import UserError
from shared.lock import OwnFolder, locked

HOLDER = "import sys, time; from pathlib import Path; from shared.lock import locked\n"
HOLDER += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"


def test_another_process_is_refused_until_the_first_is_gone(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"another process works in {tmp_path}"), locked(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(60)
        with locked(tmp_path):
            pass


OWNER = "import sys, time; from shared.lock import OwnFolder\n"
OWNER += "folder = OwnFolder('tandem-x-'); print(folder.path, flush=True); time.sleep(60)"


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        (left / "file").write_text("")
        first = OwnFolder("tandem-x-")
        assert left.parent == first.path.parent == tmp_path
        assert (left / "file").exists()  # its owner lives
        owner.kill()
        owner.wait(60)
    second = OwnFolder("tandem-x-")
    assert {path.name for path in tmp_path.iterdir()} == {first.path.name, second.path.name}
    first.remove()
    second.remove()
    assert not any(tmp_path.iterdir())
