"""Every PromQL expression that is shipped: of the alert rules and of the dashboard's panels."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "tandem.json"
VARIABLES = {"$__rate_interval": "30s", "$run": ".*"}
"""What Grafana puts in."""
NAME = re.compile(r"\b(?:tandem_\w+|process_\w+|up|ALERTS)\b")


def alerts() -> dict[str, dict[str, Any]]:
    """Every alert rule by its name."""
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def panels() -> list[dict[str, Any]]:
    """Every panel, rows too, from top to bottom."""
    return json.loads(DASHBOARD.read_text())["panels"]


def expressions() -> dict[str, str]:
    """Each expression by where it is."""
    found = {f"alert {name}": rule["expr"] for name, rule in alerts().items()}
    for panel in panels():
        for target in panel.get("targets", ()):
            found[f"panel {panel['title']} {target['refId']}"] = _filled(target["expr"])
    return found


def named(expression: str) -> set[str]:
    """The names of the series that it reads."""
    return set(NAME.findall(expression))


def _filled(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression
