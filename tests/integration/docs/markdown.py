"""The pages that people read, parsed: their code blocks, code spans, tables and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
_PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: the page it stands in, its first line, its language and what its opening fence says after it."""

    page: Path
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def tokens(page: Path) -> list[Token]:
    """The page as markdown-it reads it."""
    return _PARSER.parse(page.read_text())


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The page's code blocks; the language of one that is only indented is `indented`."""
    found = []
    for token in tokens(page):
        if token.type in ("fence", "code_block"):
            named, _, note = ("indented" if token.type == "code_block" else token.info).partition(" ")
            found.append(Block(page, (token.map or [0])[0] + 1, named, note.strip(), token.content))
    return [block for block in found if language in (None, block.language)]


def spans(page: Path) -> list[str]:
    """Every inline code span, in order."""
    return [child.content for child in _inline(tokens(page)) if child.type == "code_inline"]


def links(page: Path) -> list[str]:
    """Where links and images point to."""
    targets = [child.attrGet("href") or child.attrGet("src") for child in _inline(tokens(page))]
    return [str(target) for target in targets if target]


def sections(page: Path, level: int) -> dict[str, str]:
    """The page's text by its headings of that level, deeper ones included in the text."""
    parts = re.split(rf"^{'#' * level} (.+)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def tables(text: str) -> list[list[list[str]]]:
    """Each table as rows of cells, the header first; cells are Markdown."""
    found: list[list[list[str]]] = []
    in_cell = False
    for token in _PARSER.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and in_cell:
            found[-1][-1].append(token.content)
        in_cell = token.type in ("th_open", "td_open")
    return found


def _inline(parsed: list[Token]) -> Iterator[Token]:
    for token in parsed:
        yield from token.children or ()
