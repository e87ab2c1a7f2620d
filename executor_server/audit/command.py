"""`tandem audit GROUP`."""

from typing import TYPE_CHECKING, Annotated

import typer

from shared.cli.options import FAULT_EXIT, SYNC_URL, AsJson, KeyFile, Url, sync_server

if TYPE_CHECKING:
    from executor_server.audit.compare import Audit


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)


def audit(
    group: Annotated[str, typer.Argument(help="Its id, as `tandem groups` shows it.", show_default=False)],
    whole_step: Annotated[bool, typer.Option(help="Compare the step's statistics, from all its groups, too.")] = True,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Compute a group's rewards, alignment, advantages and fates again from the record; exit code 1 where they differ.

    Examples: tandem audit 0197a6f0-0000-7000-8000-000000000001;
    tandem audit 0197a6f0-0000-7000-8000-000000000001 --no-whole-step --json
    """
    from executor_server.audit import compare
    from executor_server.audit.record import read
    from shared.cli.names import thing_id
    from shared.cli.terminal import print_json

    with sync_server(url, key_file) as server:
        found = compare.audit(read(server, thing_id(group), whole_step=whole_step))
    print_json(found.plain()) if as_json else _print(found)
    if found.differences:
        raise typer.Exit(FAULT_EXIT)


def _print(found: "Audit") -> None:
    from shared.cli.terminal import console, table

    out = console()
    for part in found.parts:
        rows = (
            (row.id, row.rollout, _number(row.reward), _number(row.advantage), f"{row.weight:g}", row.fate)
            for row in part.rows
        )
        columns = ("trajectory", "rollout", "reward", "advantage", "weight", "fate")
        out.print(f"{part.role}, step {part.step}{': a dead group' if part.dead else ''}", style="italic")
        out.print(table(columns, rows))
    for note in found.notes:
        out.print(f"note: {note}", soft_wrap=True)
    if not found.differences:
        out.print("OK: the record is what is computed from it" if found.parts else "there was nothing to compare")
        return
    rows = ((d.role, d.step, d.what, d.recorded, d.computed) for d in found.differences)
    out.print("DIFFERENT", style="bold red")
    out.print(table(("role", "step", "what", "recorded", "computed"), rows), style="bold red")


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:+.6f}"
