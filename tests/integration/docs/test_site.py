"""The site of `make docs` has every page; what MkDocs would not understand is seen before it is built."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site.fences import indented, titled
from tests.integration.docs.markdown import PAGES, ROOT

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


@pytest.mark.parametrize("name", SITE["extra"]["reference"])
def test_the_reference_is_of_modules_that_define_something_with_a_docstring(name: str):
    module = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text())
    assert ast.get_docstring(module)
    defined = [node for node in module.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    public = [node for node in defined if not node.name.startswith("_")]
    assert public
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_a_note_behind_a_language_becomes_the_title_of_the_block():
    assert titled("```python try_it.py\n1\n```") == '```python title="try_it.py"\n1\n```'
    assert titled("   ```json <!-- schema: Ack -->\n") == "   ```json\n"
    assert titled("```\nx\n```\n```sh\n") == "```\nx\n```\n```sh\n"


def test_what_belongs_to_an_item_is_indented_as_the_site_wants_it():
    item = "1. So:\n\n   ```bash\n   a\n     b\n   ```\n\n   More.\n2. Then\n"
    assert indented(item) == "1. So:\n\n    ```bash\n    a\n      b\n    ```\n\n    More.\n2. Then\n"
    assert indented("* a\n  b\n```\n   drawn\n```\n") == "* a\n  b\n```\n   drawn\n```\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_fence_is_one_that_the_site_reads(page: Path):
    fences = re.findall(r"^ *```.*$", titled(page.read_text()), flags=re.MULTILINE)
    assert [fence for fence in fences if not re.fullmatch(r' *```(\w+( title="[^"]+")?)?', fence)] == []
