"""One `tandem` process, as a user starts it: a folder, an exit code, and what it printed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

TANDEM = Path(sys.executable).parent / "tandem"
LIMIT_S = 900
GRACE_S = 120
"""Both are bounds for a machine that has much else to do."""


class Demo:
    """One `tandem` process; `wait` gives its exit code, `output` what it printed."""

    def __init__(self, log: Path, *arguments: str | Path) -> None:
        self.log = log
        with log.open("ab") as sink:
            environment = {**os.environ, "COLUMNS": "160"}
            self.process = subprocess.Popen(
                [TANDEM, *arguments], stdout=sink, stderr=sink, env=environment, preexec_fn=_ignore_interrupts
            )
        self._seen: dict[int, psutil.Process] = {}

    def wait(self) -> int:
        return self.process.wait(LIMIT_S)

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def children(self) -> list[psutil.Process]:
        """All processes below it, now or seen before."""
        if self.process.poll() is None:
            self._seen |= {p.pid: p for p in psutil.Process(self.process.pid).children(recursive=True)}
        return list(self._seen.values())

    def server(self, module: str) -> psutil.Process:
        """The server of that module."""
        return next(p for p in self.children() if module in _command(p) and "--check" not in _command(p))

    def worker(self, module: str, kind: str) -> psutil.Process:
        """The trainer or the sampler of that server."""
        return next(p for p in self.server(module).children() if kind in _command(p))

    def left_behind(self) -> list[psutil.Process]:
        """What of it is still alive after a grace that is only a bound."""
        return psutil.wait_procs(self.children(), timeout=GRACE_S)[1]


def _ignore_interrupts() -> None:
    """As a shell does to what it starts with `&` in a script: the command must be stopped by them all the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _command(process: psutil.Process) -> list[str]:
    """Its command line; nothing where it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
