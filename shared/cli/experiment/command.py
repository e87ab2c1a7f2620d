"""`tandem experiment`: the paper's arms over several seeds, as resumable jobs; what they came to, with intervals."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shared.cli.demo_commands import INTERRUPTED_EXIT, interruptible
from shared.schemas.base import MAX_INTEGER

SEEDS = "11,12,13,14,15"
FOLDER = Path("runs/experiment")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(experiment)


def experiment(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides for every job, such as run.steps=50.")
    ] = None,
    arms: Annotated[str | None, typer.Option(help="Which, with commas between; default: all.")] = None,
    seeds: Annotated[str, typer.Option(help="Which, with commas between.")] = SEEDS,
    setting: Annotated[str, typer.Option(help="How hard the tasks are.")] = "easy",
    smoke: Annotated[bool, typer.Option("--smoke", help="Two steps of every arm with one seed.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the jobs live; a second start goes on there.")] = FOLDER,
    config: Annotated[Path | None, typer.Option(help="A file of arms, in place of Tandem's own.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the jobs and a guess of the time, and run none.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="Print the summary as one line of JSON.")] = False,
) -> None:
    """Compare the paper's arms: every arm with every seed, one job after another; a second start goes on where it was.

    Exit code 0: every job is done; 1: some failed, and are named at the end; 2: a mistake; 130: stopped.

    Examples: tandem experiment --plan; tandem experiment --smoke;
    tandem experiment --arms cotrain,frozen-executor --seeds 11,12
    """
    from shared.cli.experiment.conductor import Experiment, conduct
    from shared.cli.terminal import console

    chosen = Experiment.chosen(
        folder=folder,
        config=config,
        arms=arms.split(",") if arms else None,
        seeds=_seeds("11" if smoke and seeds == SEEDS else seeds),
        setting=setting,
        smoke=smoke,
        overrides=overrides or [],
    )
    if plan:
        from shared.cli.experiment.listing import show_plan

        return show_plan(chosen, json_lines)
    shown = console(stderr=True)
    try:
        sys.exit(interruptible(conduct(chosen, shown, json_lines)))
    except KeyboardInterrupt:
        shown.print(f"stopped; the same command goes on in {folder}")
        sys.exit(INTERRUPTED_EXIT)


def _seeds(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and int(part) <= MAX_INTEGER for part in parts):
        raise typer.BadParameter(f"{text!r} is no list such as {SEEDS}", param_hint="--seeds")
    return list(dict.fromkeys(map(int, parts)))
