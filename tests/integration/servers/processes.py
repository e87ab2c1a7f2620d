"""The torch processes of servers that run in this process."""

from pathlib import Path

import psutil

from tests.processes import words


def worker(folder: Path, kind: str) -> psutil.Process:
    """The sampler or trainer of the server whose data is in `folder`: the one that logs there."""
    log = str(folder / "logs" / f"{kind}.log")
    children = (p for p in psutil.Process().children(recursive=True) if "shared.policy.worker" in words(p))
    return next(p for p in children if any(file.path == log for file in p.open_files()))
