"""The processes of a test: any of them may end while it is looked at."""

import psutil


def words(process: psutil.Process) -> list[str]:
    """Its command line; nothing where it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
