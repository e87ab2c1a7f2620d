"""What MkDocs cannot do by itself: the README is the first page, the reference is made from docstrings.

The pages link to each other as they do on a forge. A link to a file that is no page of the site loses its target and
keeps its text.
"""

import re
from pathlib import Path
from posixpath import normpath
from typing import Any

from fences import indented, titled
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
README = "../README.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the two pages that are no files of docs/."""
    modules: list[str] = config.extra["reference"]
    reference = "# Reference\n\n" + "\n\n".join(f"::: {module}" for module in modules)
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    files.append(File.generated(config, "reference.md", content=reference))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Turn links to the README into links to the first page, and drop those to files that are not here."""
    of_readme = page.file.src_uri == "index.md"
    folder = "" if of_readme else page.file.src_uri.rpartition("/")[0]

    def lead(found: re.Match[str]) -> str:
        mark, text, link = found.groups()
        target, _, anchor = link.partition("#")
        if "://" in link or not target:
            return found[0]
        place = normpath(f"{folder}/{target}") if folder else normpath(target)
        if of_readme:
            place = place.removeprefix("docs/") if place.startswith("docs/") else f"../{place}"
        if place == README:
            place = "index.md"
        if files.get_file_from_path(place) is None:  # where there is no such file at all, the build must fail
            return text if (ROOT / "docs" / place).exists() else found[0]
        up = "../" * (folder.count("/") + 1) if folder else ""
        return f"{mark}[{text}]({up}{place}{f'#{anchor}' if anchor else ''})"

    return LINK.sub(lead, indented(titled(markdown)))


def on_page_content(html: str, page: Page, **_: Any) -> None:
    """Refuse a page with a code block that was not understood: it would be shown as text."""
    if "```" in html:
        raise PluginError(f"{page.file.src_uri}: a fence of a code block is on the page as text")
