"""Child processes: their log, their end, and their parent's end."""

import subprocess
import sys
from pathlib import Path

import psutil

from shared.process import Service, tail


def test_what_it_printed_last_is_its_obituary(tmp_path: Path):
    service = Service("server", [sys.executable, "-c", "print('port taken'); raise SystemExit(7)"], tmp_path / "a.log")
    service.wait(30)
    assert "ended with exit code 7" in service.obituary()
    assert "port taken" in service.obituary()


def test_stop_kills_what_does_not_listen(tmp_path: Path):
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True); time.sleep(600)"
    )
    service = Service("deaf", [sys.executable, "-c", code], tmp_path / "a.log")
    while "up" not in tail(tmp_path / "a.log"):
        assert service.exit_code is None
    service.stop(timeout_s=0.2)
    assert service.exit_code == -9
    assert "killed by signal 9" in service.obituary()


def test_a_child_ends_with_its_parent(tmp_path: Path):
    code = (
        "import sys, time; from pathlib import Path; from shared.process import Service\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"s = Service('child', command, Path({str(tmp_path)!r}) / 'c.log')\n"
        "print(s.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    assert psutil.wait_procs([child], timeout=30)[1] == []
