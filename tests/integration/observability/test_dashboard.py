"""The dashboard as Grafana loads it: its rows, its variables, and panels that say what they show."""

import json
from itertools import combinations
from typing import Any

import pytest
import yaml

from tests.integration.observability.expressions import DASHBOARD, ROOT, panels

ROWS = ["Health", "Sync", "Learning", "Alignment", "Policies", "Services"]
SHOWN = [panel for panel in panels() if panel["type"] != "row"]
PROVISIONING = ROOT / "deploy" / "grafana" / "provisioning"


def test_rows_are_in_the_order_in_which_one_asks() -> None:
    assert [panel["title"] for panel in panels() if panel["type"] == "row"] == ROWS


def test_ids_are_unique_and_panels_do_not_overlap() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert [(a["title"], b["title"]) for a, b in combinations(panels(), 2) if overlap(a, b)] == []


@pytest.mark.parametrize("panel", SHOWN, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert target["legendFormat"]


def test_titles_are_unique() -> None:
    titles = [panel["title"] for panel in SHOWN]
    assert len(set(titles)) == len(titles)


def test_data_source_and_run_are_chosen() -> None:
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    assert [(variable["name"], variable["type"]) for variable in variables] == [
        ("datasource", "datasource"),
        ("run", "query"),
    ]


def test_what_is_provisioned_is_named() -> None:
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "tandem.yml").read_text())["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"]


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two panels share a place of the grid."""
    one, other = a["gridPos"], b["gridPos"]
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )
