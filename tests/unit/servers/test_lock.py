"""A folder is worked in by one process: two servers, or two starts of one demo, would spoil each other's files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.errors import UserError
from shared.lock import locked

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
