"""The alert rules, by promtool: each fires on bad series, tells what it should, and is silent on good ones."""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from tests.integration.docs.markdown import ROOT
from tests.integration.docs.test_links import anchors
from tests.integration.observability.alert_cases import CASES, Case
from tests.integration.observability.expressions import PROMETHEUS, alerts
from tests.integration.observability.prometheus import promtool

ALERTS = alerts()
SEVERITIES = {"critical", "warning", "info"}


def unit(case: Case) -> dict:
    """One unit test: right at the start it is silent, and in the end it fires once."""
    rule = ALERTS[case.alert]
    fired = {
        "exp_labels": case.labels | rule["labels"],
        "exp_annotations": rule["annotations"] | {"summary": case.summary},
    }
    looks = [(0, []), (case.minutes, [fired])]
    return {
        "interval": "1m",
        "input_series": case.inputs(),
        "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": case.alert, "exp_alerts": expected} for minutes, expected in looks
        ],
    }


def check(folder: Path, tests: list[dict]) -> None:
    file = folder / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(PROMETHEUS / "alerts.yml")], "tests": tests}))
    promtool("test", "rules", str(file))


def test_the_rules_are_valid() -> None:
    promtool("check", "rules", str(PROMETHEUS / "alerts.yml"))


def test_every_alert_has_a_case() -> None:
    assert sorted(case.alert for case in CASES) == sorted(ALERTS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_on_bad_series_and_not_on_good_ones(case: Case, tmp_path: Path) -> None:
    check(tmp_path, [unit(case)])


def test_the_check_of_a_case_can_fail(tmp_path: Path) -> None:
    broken = unit(CASES[0]) | {"input_series": []}
    with pytest.raises(AssertionError, match="TandemSyncDown"):
        check(tmp_path, [broken])


def test_a_run_that_is_paused_needs_no_lease(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.alert == "TandemNoLease")
    silent = unit(case)
    for series in silent["input_series"]:
        series["series"] = series["series"].replace("running", "paused")
    silent["alert_rule_test"][1]["exp_alerts"] = []
    check(tmp_path, [silent])


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_what_a_person_needs(name: str) -> None:
    rule = ALERTS[name]
    assert _period(rule["for"]) > timedelta(0)
    assert rule["labels"]["severity"] in SEVERITIES
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert page == "docs/operations.md"
    assert anchor == name.lower()
    assert anchor in anchors(ROOT / page)


def test_every_paragraph_of_the_runbook_is_of_an_alert() -> None:
    named = {anchor for anchor in anchors(ROOT / "docs" / "operations.md") if anchor.startswith("tandem")}
    assert named == {name.lower() for name in ALERTS}


def _period(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours"}
    return timedelta(**{units[text[-1]]: int(text[:-1])})
