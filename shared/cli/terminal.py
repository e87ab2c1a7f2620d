"""What a command prints. Text of a model or a stranger is hostile: a terminal must take it for text only."""

import json
import re
import sys
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequences: colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # strings: titles, links
    r"|\x1b[ -/]*[0-~]?"
)
FILE_WIDTH = 1000
KEPT = "\n\t"
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Controls, marks that are not seen (they turn the direction of writing), halves of pairs, and other line ends."""


def clean(text: str) -> str:
    """`text` without escape sequences and without what a terminal obeys or does not show."""
    bare = ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "".join(c for c in bare if c in KEPT or unicodedata.category(c) not in HIDDEN)


def one_line(text: str) -> str:
    """`clean`, on one line."""
    return " ".join(clean(text).split())


def console(*, stderr: bool = False) -> Console:
    """A console that takes no text for markup, emoji or something to highlight; a file gets long lines whole."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else FILE_WIDTH
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A table of cleaned cells; None is an empty one."""
    made = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*("" if cell is None else one_line(str(cell)) for cell in row))
    return made


def print_json(value: Any) -> None:
    """One line of JSON, in ASCII: what a terminal would obey is escaped."""
    print(json.dumps(value, allow_nan=False))


def counts(of: dict[str, int]) -> str:
    """`3 open, 20 complete`."""
    return ", ".join(f"{number} {name}" for name, number in of.items()) or "none"


def span(seconds: float) -> str:
    """A time in the unit that suits it: `12 s`, `5 min`, `3.2 h`, `2.5 days`."""
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def between(earlier: str, later: str) -> float:
    """Seconds from one ISO time to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
