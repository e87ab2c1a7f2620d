"""Child processes that end with their parent, log to a file, and are stopped within a bound."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOP_S = 60.0
"""Longer than one of our servers takes at most, with the database that it may have to stop."""


def end_with_parent() -> None:
    """Ask Linux to end this process when its parent dies; elsewhere a no-op. Runs in the child, before exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log file, empty where there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 16384))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


class Service:
    """One process of ours, logging to `log`; it has a session of its own, so Ctrl-C is ours to pass on."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """Its exit code, once it has ended; subprocess.TimeoutExpired where it has not in time."""
        return self._process.wait(timeout_s)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """SIGTERM, and SIGKILL for what is still there after `timeout_s`."""
        if self.exit_code is None:
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_s)

    def obituary(self) -> str:
        """One line that says how it ended, and the last lines of its log."""
        code = self.exit_code
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return f"the {self.name} {how}; the end of {self.log}:\n{tail(self.log)}"
