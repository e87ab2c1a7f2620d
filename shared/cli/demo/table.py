"""The closing table, on a terminal or in a log."""

from rich.console import Console
from rich.table import Table

from shared.cli.demo.grid import AFTER, BEFORE, MODES


def print_table(console: Console, summary: dict) -> None:
    """The 2x2 accuracies, and what the run was made of."""
    for mode in MODES:
        console.print(_accuracies(mode, summary["accuracy"][mode]))
    facts = Table(title="the run", show_header=False, title_justify="left")
    facts.add_column(style="dim")
    facts.add_column()
    for name, value in _facts(summary):
        facts.add_row(name, value)
    console.print(facts)
    console.print(f"[bold]{summary['verdict']}[/bold]")


def _accuracies(mode: str, cells: dict) -> Table:
    title = "accuracy on unseen tasks, " + ("sampled at T = 1" if mode == "sampled" else "greedy")
    table = Table(title=title, title_justify="left")
    for column in ("", "executor before", "executor after"):
        table.add_column(column)
    for planner in (BEFORE, AFTER):
        row = [_interval(cells[f"planner_{planner}_executor_{executor}"], "accuracy") for executor in (BEFORE, AFTER)]
        table.add_row(f"planner {planner}", *row)
    table.add_section()
    table.add_row("rise (paired)", "", _interval(cells["paired_difference"], "mean", sign=True))
    return table


def _interval(cell: dict, key: str, sign: bool = False) -> str:
    low, high = cell["interval"]
    form = "{:+.3f}" if sign else "{:.3f}"
    return f"{form.format(cell[key])}  [{form.format(low)}, {form.format(high)}]"


def _facts(summary: dict) -> list[tuple[str, str]]:
    rows, calls = summary["rows"], summary["calls_per_rollout"]
    per_role = [
        (f"reward, {role}", " -> ".join(f"{value:.3f}" for value in edges.values()) or "no live step")
        for role, edges in summary["reward"].items()
    ]
    dead = ", ".join(
        f"{role} {d['dead']} of {d['groups']} ({d['share']:.0%})" for role, d in summary["dead_groups"].items()
    )
    stale = ", ".join(f"{role} mean {s['mean']:.2f}, most {s['most']}" for role, s in summary["staleness"].items())
    steps = ", ".join(f"{role} " + " + ".join(f"{n} {o}" for o, n in s.items()) for role, s in summary["steps"].items())
    return [
        *per_role,
        ("steps", steps),
        ("groups", ", ".join(f"{n} {state}" for state, n in summary["groups"].items() if n)),
        (
            "calls per rollout",
            f"mean {calls['mean']:.2f}; " + ", ".join(f"{k}: {n}" for k, n in calls["histogram"].items()),
        ),
        ("executor rows", ", ".join(f"{n} {key}" for key, n in rows.items())),
        ("dead groups", dead),
        ("staleness of rows", stale),
        ("bytes per rollout through sync", f"{summary['bytes_per_rollout']:.0f}"),
        ("seconds", ", ".join(f"{stage} {value:.0f}" for stage, value in summary["seconds"].items())),
    ]
