"""Ctrl-C while a command is still being imported: one line and exit code 130. The imports are most of a start."""

import sys
from collections.abc import Callable

INTERRUPTED = 130


def interruptible(name: str, command: Callable[[], int | None]) -> int | None:
    """What `command` returns, which imports what it needs itself; 130 where it is interrupted."""
    try:
        return command()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
