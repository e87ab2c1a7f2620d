"""Code blocks as MkDocs reads them: of what stands behind a fence's language it knows a title, and nothing else.

On a forge it is not shown. It is a file's name, or says which test runs the commands (CONTRIBUTING.md); on a page of
the site it is the block's title.
"""

import re

FENCE = re.compile(r"^( *)```(\w+) +(.+?) *$", re.MULTILINE)


def titled(markdown: str) -> str:
    """The page with the note of each fence as its title; comments, which only tests read, are dropped."""
    return FENCE.sub(lambda found: f"{found[1]}```{found[2]}{_title(found[3])}", markdown)


def _title(note: str) -> str:
    return "" if note.startswith("<!--") else f' title="{note}"'
