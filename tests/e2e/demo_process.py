"""One `tandem` process, as a user starts it: a folder, an exit code, and what it printed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.processes import words

TANDEM = Path(sys.executable).parent / "tandem"
LIMIT_S = 900
LOOK_S = 0.2
GRACE_S = 120
"""Both are bounds for a machine that has much else to do."""


class Demo:
    """One `tandem` process; `wait` gives its exit code, `output` what it printed."""

    def __init__(self, log: Path, *arguments: str | Path) -> None:
        self.log = log
        with log.open("ab") as sink:
            environment = {**os.environ, "COLUMNS": "160"}
            self.process = subprocess.Popen(
                [TANDEM, *arguments], stdout=sink, stderr=sink, env=environment, preexec_fn=ignore_interrupts
            )
        self._seen: dict[int, psutil.Process] = {}

    def wait(self) -> int:
        """Its exit code; what it starts meanwhile is looked at, so that `left_behind` knows it."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            self.children()
            try:
                return self.process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise

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
        return next(p for p in self.children() if module in words(p) and "--check" not in words(p))

    def worker(self, module: str, kind: str) -> psutil.Process:
        """The trainer or the sampler of that server."""
        return next(p for p in self.server(module).children(recursive=True) if kind in words(p))

    def left_behind(self) -> list[psutil.Process]:
        """What of it is still alive after a grace that is only a bound."""
        return psutil.wait_procs(self.children(), timeout=GRACE_S)[1]


def ignore_interrupts() -> None:
    """As a shell does to what it starts with `&` in a script: the command must be stopped by them all the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
