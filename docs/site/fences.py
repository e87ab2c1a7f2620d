"""Code blocks as MkDocs reads them: of what stands behind a fence's language it knows a title, and nothing else.

On a forge it is not shown. It is a file's name, or says which test runs the commands (CONTRIBUTING.md); on a page of
the site it is the block's title. And what belongs to an item of a list is indented by four spaces there, not by three.
"""

import re

ITEM = 3
FENCE = re.compile(r"^( *)```(\w+) +(.+?) *$", re.MULTILINE)


def titled(markdown: str) -> str:
    """The page with the note of each fence as its title; comments, which only tests read, are dropped."""
    return FENCE.sub(lambda found: f"{found[1]}```{found[2]}{_title(found[3])}", markdown)


def indented(markdown: str) -> str:
    """The page with what stands below `1. ` as MkDocs wants it; a block of code as a whole, others as they are."""
    lines, fence = [], None
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        depth = len(line) - len(text) if fence is None else fence
        if text.startswith("```"):
            fence = depth if fence is None else None
        lines.append(f" {line}" if depth == ITEM and text else line)
    return "\n".join(lines)


def _title(note: str) -> str:
    return "" if note.startswith("<!--") else f' title="{note}"'
