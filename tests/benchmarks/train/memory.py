"""The memory of this process, as Linux counts it: resident bytes now, and their peak since it was last reset."""

import ctypes
import gc
import re
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def floor(gradient_bytes: int) -> int:
    """Resident bytes between steps, with the gradients that a step keeps added: weights, gradients, optimiser state.

    Freed memory is given back first. What the interpreter and its libraries take is in it, too.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _bytes("VmRSS") + gradient_bytes


def reset_peak() -> None:
    """The peak counts from now."""
    CLEAR.write_text("5")


def peak() -> int:
    """The most resident bytes since the reset."""
    return _bytes("VmHWM")


def _bytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", STATUS.read_text())
    assert found, f"{STATUS} has no {name}"
    return 1024 * int(found[1])
