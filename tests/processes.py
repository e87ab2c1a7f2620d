"""The processes of a test: any of them may end while it is looked at."""

import psutil


def words(process: psutil.Process) -> list[str]:
    """Its command line, or the title that it gave itself; nothing where it has ended."""
    try:
        return " ".join(process.cmdline()).split()
    except psutil.Error:
        return []
