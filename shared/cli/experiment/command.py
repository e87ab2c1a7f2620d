"""`tandem experiment`: the paper's arms over several seeds, as resumable jobs; what they came to, with intervals."""

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from shared.cli.demo_commands import INTERRUPTED_EXIT, interruptible
from shared.schemas.base import MAX_INTEGER

SEEDS = "11,12,13,14,15"
SMOKE_SEED = "11"
RUNS = Path("runs")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(experiment)


def experiment(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides for every job, such as run.steps=50.")
    ] = None,
    arms: Annotated[str | None, typer.Option(help="Which, with commas between; default: all.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help=f"Which, with commas between; default: {SEEDS}, with --smoke 11.")
    ] = None,
    setting: Annotated[str, typer.Option(help="How hard the tasks are: easy or hard.")] = "easy",
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Two steps of every arm with one seed, in a fresh folder.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the jobs live; a second start goes on there. Default: runs/experiment."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A file of arms, in place of Tandem's own.")] = None,
    publish: Annotated[Path | None, typer.Option(help="Copy data, plots and pages to this folder, too.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the jobs and a guess of the time, and run none.")] = False,
    json_lines: Annotated[bool, typer.Option("--json", help="Print the summary as one line of JSON.")] = False,
) -> None:
    """Compare the paper's arms: every arm with every seed, one job after another; a second start goes on where it was.

    Exit code 0: every job is done; 1: some failed, and are named at the end; 2: a mistake; 130: stopped.

    Examples: tandem experiment --plan; tandem experiment --smoke;
    tandem experiment --arms cotrain,frozen-executor --seeds 11,12
    """
    from shared.cli.experiment.experiment import Experiment

    where = folder or RUNS / ("experiment" if not smoke else f"experiment-smoke-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    chosen = Experiment.chosen(
        folder=where,
        config=config,
        arms=arms.split(",") if arms else None,
        seeds=_seeds((SMOKE_SEED if smoke else SEEDS) if seeds is None else seeds),
        setting=setting,
        smoke=smoke,
        overrides=overrides or [],
        command=shlex.join(["tandem", *sys.argv[1:]]),
    )
    if plan:
        from shared.cli.experiment.listing import show_plan

        return show_plan(chosen, json_lines)
    from shared.cli.experiment.conductor import conduct
    from shared.cli.terminal import console

    shown = console(stderr=True)
    try:
        sys.exit(interruptible(conduct(chosen, shown, publish_to=publish, as_json=json_lines)))
    except KeyboardInterrupt:
        shown.print(f"stopped; the same command with --folder {where} goes on")
        sys.exit(INTERRUPTED_EXIT)


def _seeds(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and int(part) <= MAX_INTEGER for part in parts):
        raise typer.BadParameter(f"{text!r} is no list such as {SEEDS}", param_hint="--seeds")
    return list(dict.fromkeys(map(int, parts)))
