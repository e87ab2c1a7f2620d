"""The child's end of a side: a line on stdin asks for a step, and a line of JSON on the real stdout answers.

Whatever a library prints goes to stderr. Standard library only.
"""

import json
import os
import sys
import time
from typing import Any


class Lines:
    """Made before anything else may print."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    def wait(self) -> bool:
        """Until the next step is asked for; False where none will be."""
        return bool(sys.stdin.readline())

    def answer(self, **figures: Any) -> None:
        """One line."""
        self._out.write(json.dumps(figures) + "\n")


class Clock:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Seconds since then, and processor seconds of all threads."""
        return {"seconds": time.perf_counter() - self._wall, "cpu_seconds": time.process_time() - self._cpu}
