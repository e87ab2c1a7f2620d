"""How a run is shown: its state, the reward formulas in force, and what it was declared with."""

from typing import Any

from rich.table import Table
from rich.text import Text

from shared.cli.terminal import one_line
from shared.mgrpo.formula import formulas
from shared.schemas.run import RunView


def plain(view: RunView) -> dict[str, Any]:
    """As JSON has it."""
    return view.model_dump(mode="json") | {"reward": formulas(view.spec)}


def render(view: RunView) -> Table:
    """Two columns."""
    table = Table(title=one_line(f"run {view.run}  {view.state}"), title_justify="left", show_header=False, box=None)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for role, formula in formulas(view.spec).items():
        table.add_row(f"reward of the {role}", Text(formula))
    for name, value in view.spec.model_dump(mode="json", exclude={"planner_reward", "executor_reward"}).items():
        table.add_row(name, Text(", ".join(value) if isinstance(value, list) else str(value)))
    return table
