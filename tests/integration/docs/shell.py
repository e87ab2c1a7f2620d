"""The shell commands that pages show, one line each, and the marks of blocks that a test runs.

A mark stands behind the language of a block: ```` ```bash run by FILE ```` is run by that test as it stands, `smoke by
FILE` in its smallest form. Each other block is parsed, line by line (test_commands.py).
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.integration.docs.markdown import PAGES, ROOT, Block, blocks, spans

SHELL = ("bash", "sh", "indented")
HEADS = ("make", "tandem", "python", "pip", ".ci/run")
MARK = re.compile(r"(run|smoke) by (\S+)")
ASSIGNMENT = re.compile(r"[A-Z_]+=")
ENDS = {">", ">>", "|", "&&", "&"}


@dataclass(frozen=True, slots=True)
class Mark:
    """How a block is run, and by which test."""

    block: Block
    how: str
    test: Path


def shell_blocks() -> list[Block]:
    """Every block of commands, of all pages."""
    return [block for page in PAGES for block in blocks(page) if block.language in SHELL]


def mark(block: Block) -> Mark | None:
    """The block's mark; None where it is parsed only."""
    found = MARK.fullmatch(block.note)
    return Mark(block, found[1], ROOT / found[2]) if found else None


def commands() -> dict[str, list[str]]:
    """Every command as words, by the page and the command itself; none of a block that is run as it stands."""
    lines = [(block.page, line) for block in shell_blocks() if not _is_run(block) for line in _lines(block.text)]
    lines += [(page, span) for page in PAGES for span in spans(page) if span.split()[0] in HEADS and " " in span]
    found = {f"{page.relative_to(ROOT)}: {line}": words(line) for page, line in lines}
    return {name: command for name, command in found.items() if command}


def words(line: str) -> list[str]:
    """The command of a line, without variables that are set for it and what its output goes to."""
    parts = shlex.split(line, comments=True)
    while parts and ASSIGNMENT.match(parts[0]):
        parts.pop(0)
    end = next((place for place, part in enumerate(parts) if part in ENDS), len(parts))
    return [parts[0].removeprefix(".venv/bin/"), *parts[1:end]] if parts else []


def _is_run(block: Block) -> bool:
    found = mark(block)
    return found is not None and found.how == "run"


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()
