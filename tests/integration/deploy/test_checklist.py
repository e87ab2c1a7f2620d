"""docs/security-checklist.csv: every requirement once, with an answer, and with tests or pages that exist."""

import csv

import pytest

from tests.integration.docs.markdown import ROOT

ROWS = list(csv.DictReader((ROOT / "docs" / "security-checklist.csv").read_text().splitlines()))
LEVEL_1 = {
    "V1": "2.1 2.2 2.3 2.4 2.5 3.1 3.2 5.1",
    "V2": "1.1 2.1 2.2 3.1",
    "V3": "2.1 2.2 3.1 4.1 4.2 5.1 5.2 5.3",
    "V4": "1.1 4.1",
    "V5": "2.1 2.2 3.1 3.2",
    "V6": "1.1 2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8 3.1 3.2 4.1 4.2",
    "V7": "2.1 2.2 2.3 2.4 4.1 4.2",
    "V8": "1.1 2.1 2.2 3.1",
    "V9": "1.1 1.2 1.3 2.1",
    "V10": "4.1 4.2 4.3 4.4 4.5",
    "V11": "3.1 3.2 4.1",
    "V12": "1.1 2.1 2.2",
    "V13": "4.1",
    "V14": "2.1 3.1",
    "V15": "1.1 2.1 3.1",
}
"""The requirements of level 1 of ASVS 5.0.0, by chapter: 70 of them."""


def test_it_has_the_ten_risks_and_level_1_and_nothing_else():
    risks = [f"API{number}:2023" for number in range(1, 11)]
    level = [f"{chapter}.{number}" for chapter, numbers in LEVEL_1.items() for number in numbers.split()]
    assert len(level) == 70
    assert [row["id"] for row in ROWS] == risks + level


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_an_answer_is_whole_and_what_it_names_is_there(row: dict[str, str]):
    assert row["how"]
    assert row["applies"] in ("yes", "deploy", "no")
    named = row["tested"].split()
    if row["applies"] == "no":
        assert (row["met"], named) == ("", [])
    else:
        assert row["met"] in ("yes", "partly")
        assert named
    for file in named:
        assert (ROOT / file).is_file(), file
        assert "def test" in (ROOT / file).read_text() or file.startswith("docs/")
