"""Every relative link resolves, and every file that a page names is there."""

import re
from pathlib import Path

import pytest

from tests.integration.docs.markdown import PAGES, ROOT, links, spans

TOPS = ("planner_server/", "executor_server/", "sync_service/", "shared/", "deploy/", "tests/", "docs/")
FILE = re.compile(rf"({'|'.join(TOPS)})[\w./-]*")


def anchors(page: Path) -> set[str]:
    """The anchors that a forge makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path):
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path):
    named = {span for span in spans(page) if FILE.fullmatch(span)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_architecture_names_a_file_for_every_concern():
    """Each module of the four packages is named, or a folder below its package that holds it."""
    named = {ROOT / span for span in spans(ROOT / "docs" / "architecture.md") if FILE.fullmatch(span)}
    packages = {ROOT / top for top in TOPS[:4]}
    modules = [path for package in packages for path in package.rglob("[!_]*.py")]
    assert modules
    lost = [path for path in modules if named.isdisjoint({path, *path.parents} - packages)]
    assert [str(path.relative_to(ROOT)) for path in sorted(lost)] == []
