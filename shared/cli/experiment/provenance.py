"""Where figures come from: the code's commit, and the machine."""

import os
import platform
import subprocess
from functools import cache
from pathlib import Path

CODE = ("planner_server", "executor_server", "sync_service", "shared")


@cache
def commit() -> str:
    """The commit of the code that runs, with `+` where it was changed since; `unknown` outside a checkout."""
    root = Path(__file__).parents[3]
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--", *CODE) else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


@cache
def machine() -> str:
    """Its kind in one line: cores that may be used, memory, processor, system, versions."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{cores} cores, {memory:.0f} GiB, {_processor()}, {system}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True, timeout=10
    ).stdout.strip()
