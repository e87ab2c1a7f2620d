"""The pages: every arm and comparison is there; whatever a model wrote is text."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from shared.cli.experiment.definition import Comparison, load_definition
from shared.cli.experiment.plan import plan
from shared.cli.experiment.report import estimate, publish, write_report
from shared.cli.experiment.summary import compare
from shared.errors import UserError
from tests.unit.cli.experiment.results import leave, result

HOSTILE = "</bdi><script>alert(1)</script>\"'<img src=x onerror=alert(2)>\u202e{{ 7 * 7 }}\x00&amp;"
ABOUT = {"cotrain": "both learn", "single": "one model", "untrained": "x", "untrained-single": "y"}


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def report(folder: Path, text: str = "Paris") -> None:
    results = [result("cotrain", seed, 3, text=text) for seed in (11, 12)]
    results.append(result("single", 11, 2, team="single", text=text))
    told = compare(results, [Comparison(of="cotrain", less="single"), Comparison(of="cotrain", less="untrained")])
    whole = {"setting": "easy", "command": "tandem experiment", "steps": 2, "sources": [], "failures": {}, **told}
    write_report(folder, whole, results, ABOUT)


def test_what_a_model_wrote_is_text(tmp_path: Path):
    report(tmp_path, HOSTILE)
    page = Page((tmp_path / "tasks.html").read_text())
    tags = {tag for tag, _ in page.tags}
    assert "script" not in tags
    assert [attrs for tag, attrs in page.tags if tag == "img" and dict(attrs)["src"] not in PLOTS] == []
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "alert" not in (tmp_path / "README.md").read_text()


PLOTS = ("curves.png", "differences.png")


def test_the_pages_have_every_arm_and_comparison(tmp_path: Path):
    report(tmp_path)
    for name in ("README.md", "tasks.html"):
        text = (tmp_path / name).read_text()
        assert all(arm in text for arm in ABOUT)
        assert "cotrain - untrained" in text
        assert "0.750 [0.750, 0.750]" in text
    assert all((tmp_path / plot).read_bytes().startswith(b"\x89PNG") for plot in PLOTS)


@pytest.mark.parametrize(
    ("told", "sign", "shown"),
    [
        ({"mean": 0.5, "interval": [0.25, 0.75]}, True, "+0.500 [+0.250, +0.750]"),
        ({"mean": 0.5, "interval": None}, False, "0.500"),
        ({"mean": 123456.7, "interval": None}, False, "123,457"),
        ({"mean": None, "interval": None}, False, "-"),
        (None, False, "-"),
    ],
)
def test_an_estimate_is_shown_with_its_interval(told: dict | None, sign: bool, shown: str):
    assert estimate(told, sign) == shown


def test_what_is_published(tmp_path: Path):
    report(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    leave(tmp_path, result("cotrain", 11, 3))
    jobs = plan(load_definition(), tmp_path, arms=["cotrain"], seeds=[11, 12], setting="easy")
    publish(tmp_path, tmp_path / "docs", jobs)
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {
        "data",
        "summary.json",
        *PLOTS,
        "README.md",
        "tasks.html",
    }
    assert [path.name for path in (tmp_path / "docs" / "data").iterdir()] == ["cotrain-11.json"]
    with pytest.raises(UserError, match=r"--publish .*summary\.json"):
        publish(tmp_path, tmp_path / "summary.json", jobs)
