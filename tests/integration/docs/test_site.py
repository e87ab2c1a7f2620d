"""The site of `make docs` has every page, and its reference names modules that there are."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import yaml

from tests.integration.docs.markdown import ROOT

FOLDER = ROOT / "docs" / "site"
MADE = {"index.md", "reference.md"}
SITE = yaml.safe_load((FOLDER / "mkdocs.yml").read_text())


def pages(nav: Any) -> Iterator[str]:
    """The files of the navigation, in order."""
    match nav:
        case str():
            yield nav
        case dict():
            for below in nav.values():
                yield from pages(below)
        case list():
            for below in nav:
                yield from pages(below)


def test_the_navigation_holds_each_page_once():
    docs = (FOLDER / SITE["docs_dir"]).resolve()
    written = [str(page.relative_to(docs)) for page in docs.rglob("*.md")]
    assert sorted(pages(SITE["nav"])) == sorted([*written, *MADE])


def test_a_link_that_leads_nowhere_fails_the_build():
    assert SITE["strict"] is True
    assert "ignore" not in str(SITE["validation"])


def test_the_reference_is_of_modules_that_there_are():
    assert [name for name in SITE["extra"]["reference"] if find_spec(name) is None] == []
