"""One finding of the doctor."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """`todo`: what to do about it; empty where there is nothing to do."""

    what: str
    state: Literal["OK", "WARN", "FAIL"]
    text: str
    todo: str = ""


def ok(what: str, text: str) -> Finding:
    """All is well."""
    return Finding(what, "OK", text)


def warn(what: str, text: str, todo: str) -> Finding:
    """It works, and may not for long."""
    return Finding(what, "WARN", text, todo)


def fail(what: str, text: str, todo: str) -> Finding:
    """It does not work."""
    return Finding(what, "FAIL", text, todo)
