"""Curves as static/charts.js takes them: one axis of steps, and a list of named lines, some with a band."""

from collections.abc import Sequence
from typing import Any

from sync_service.operations.series import Curves, Values, ratio

DIGITS = 5
Chart = dict[str, Any]


def line(name: str, y: Values, **more: Any) -> dict[str, Any]:
    """One line. `role` gives it that role's colour."""
    return {"name": name, "y": rounded(y), **more}


def rounded(values: Values) -> list[float | None]:
    """Values to DIGITS digits: a page holds thousands of them."""
    return [None if value is None else float(f"{value:.{DIGITS}g}") for value in values]


def chart(steps: Sequence[int], series: Sequence[dict[str, Any]], y: str, **thresholds: float) -> Chart:
    """Lines over steps, without those of which nothing is known; `thresholds` by name."""
    known = [one for one in series if any(value is not None for value in one["y"])]
    lines = [{"name": name.replace("_", " "), "y": value} for name, value in thresholds.items()]
    return {"x": list(steps), "xLabel": "step", "yLabel": y, "series": known, "lines": lines}


def of_roles(curves: Curves, name: str, y: str) -> Chart:
    """One statistic, a line a role."""
    lines = [line(role, values[name], role=role) for role, values in curves.roles.items()]
    return chart(curves.steps, lines, y)


def rewards(curves: Curves) -> Chart:
    """The mean reward of each role, with a band of one deviation about it."""
    lines = []
    for role, values in curves.roles.items():
        mean, spread = values["reward_mean"], values["reward_deviation"]
        low, high = (_beside(mean, spread, sign) for sign in (-1, 1))
        lines.append(line(role, mean, role=role, low=rounded(low), high=rounded(high)))
    return chart(curves.steps, lines, "reward")


def dead_shares(curves: Curves) -> Chart:
    """The part of each role's groups that taught nothing."""
    lines = [
        line(role, ratio(values["groups_dead"], values["groups"]), role=role) for role, values in curves.roles.items()
    ]
    return chart(curves.steps, lines, "share of groups")


def compared(runs: Sequence[Curves], name: str, y: str) -> Chart:
    """One statistic of several runs over the steps of all of them; an executor's line is dashed."""
    steps = sorted({step for curves in runs for step in curves.steps})
    lines = []
    for curves in runs:
        for role, values in curves.roles.items():
            known = dict(zip(curves.steps, values[name], strict=True))
            y_of = [known.get(step) for step in steps]
            lines.append(line(f"{curves.run}, {role}", y_of, dash=role == "executor"))
    return chart(steps, lines, y)


def _beside(mean: Values, spread: Values, sign: int) -> list[float | None]:
    """A deviation above or below; the mean itself where none is known."""
    return [m if m is None or s is None else m + sign * s for m, s in zip(mean, spread, strict=True)]
