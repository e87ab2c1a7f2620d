"""A server process that ends with its parent, however the parent ends, and writes to a log of its own."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from shared.errors import UserError
from sync_service.embedded.account import Account

_PR_SET_PDEATHSIG = 1
LOG_LINES = 8


def _end_with_parent(sig: signal.Signals) -> Callable[[], None] | None:
    """A function for the child, between fork and exec: the kernel sends it `sig` when its parent is gone."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, int(sig))
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return arrange


class Child:
    """One server. Start it from the main thread: the kernel ties a child to the thread that made it."""

    def __init__(self, name: str, command: Sequence[str], log: Path, account: Account, stop: signal.Signals) -> None:
        self._name = name
        self._stop = stop
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle, not the server's
                preexec_fn=_end_with_parent(stop),
                **account.popen(),
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def until(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Wait until `ready()`; UserError with the end of the log where the server ends or the time is over."""
        deadline = asyncio.get_running_loop().time() + deadline_s
        while not ready():
            if self._process.poll() is not None:
                raise UserError(f"{self._name} ended at its start ({self.log}):\n{tail(self.log)}")
            if asyncio.get_running_loop().time() > deadline:
                raise UserError(f"{self._name} did not answer in {deadline_s:.0f} s ({self.log}):\n{tail(self.log)}")
            await asyncio.sleep(0.02)

    async def stop(self, deadline_s: float = 10.0) -> None:
        """Ask it to end, wait, and kill it after `deadline_s`."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(self._stop)
        try:
            await asyncio.to_thread(self._process.wait, deadline_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait, deadline_s)


def tail(log: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a log, or nothing."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
