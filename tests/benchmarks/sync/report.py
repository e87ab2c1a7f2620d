"""The figures: medians of the repeats, a table for people, and one line of JSON for machines."""

import json
import statistics
from collections import defaultdict
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from tests.benchmarks.sync.shape import Shape

JUDGED = ("bulk_rollouts_per_s", "client_rollouts_per_s", "raw_rollouts_per_s", "stream_cycles_per_s", "submit_p50_ms")
"""What the long history is judged by: a high quantile of one short run says more of the machine than of the history."""


class Figures:
    """By place and name, one value a repeat."""

    def __init__(self) -> None:
        self._values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, where: str, found: dict[str, float]) -> None:
        """One measurement."""
        for name, value in found.items():
            self._values[where, name].append(value)

    def of(self, where: str) -> dict[str, float]:
        """The medians in one place."""
        return {name: statistics.median(values) for (place, name), values in self._values.items() if place == where}


def ratios(fresh: dict[str, float], old: dict[str, float]) -> dict[str, float]:
    """How good each figure is on the long history, by what it is without: below 1 is worse."""
    return {
        name: (fresh[name] / old[name] if name.endswith("_ms") else old[name] / fresh[name])
        for name in fresh
        if name in old and not name.startswith("bytes")
    }


def report(shape: Shape, figures: Figures) -> None:
    """Print the table and, last, the line."""
    fresh, polling, old = figures.of("fresh"), figures.of("polling"), figures.of("old")
    compared = ratios(fresh, old)
    table = Table(title=f"sync service, shape {shape.name}")
    for column in ("figure", "new runs", "without Redis", f"history of {shape.history:,}", "ratio"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name in fresh:
        cells = [f"{place[name]:,.1f}" if name in place else "" for place in (fresh, polling, old)]
        table.add_row(name, *cells, f"{compared[name]:.2f}" if name in compared else "")
    Console().print(table)
    line = {name: round(value, 2) for name, value in fresh.items()}
    line |= {
        "submit_polling_p99_ms": round(polling["submit_p99_ms"], 2),
        "visibility_polling_p50_ms": round(polling["visibility_p50_ms"], 2),
        "visibility_polling_p99_ms": round(polling["visibility_p99_ms"], 2),
        "long_history_ratio": round(min(compared[name] for name in JUDGED), 3),
        "long_history_ratios": {name: round(value, 3) for name, value in compared.items()},
        "shape": asdict(shape),
    }
    print(json.dumps(line))
