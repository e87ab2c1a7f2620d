"""`tandem warmup`: supervised warm-up of one model on its environment's demonstrations, up to its gates."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from shared.environments.base import Team
from shared.schemas.base import MAX_INTEGER, ROLES, Role

if TYPE_CHECKING:  # torch is imported where it is needed: every command should not pay for it
    from shared.policy.warmup.loop import Progress

GATE_EXIT = 3
REPORT_EVERY = 10
"""Steps between two progress events on stdout."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(warmup)


def warmup(
    out: Annotated[Path, typer.Option(help="The Hugging Face folder to write.")],
    role: Annotated[str | None, typer.Option(help="planner or executor, of a pair.")] = None,
    team: Annotated[
        str, typer.Option(help="pair; or one model: single, which has the tools itself, or unified, in both roles.")
    ] = "pair",
    environment: Annotated[str, typer.Option(help="A name, or package.module:Class.")] = "atlas",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the environment, name=value; may be repeated.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="The model to start from; default: the environment's own.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_INTEGER, help="Of the weights, the rows and the gates.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Just so many steps, and no gate: a trial run.")] = None,
    demonstrations: Annotated[
        int | None, typer.Option(min=1, help="Go over just so many, and learn nothing else; default: fresh ones.")
    ] = None,
    pace: Annotated[
        list[str] | None, typer.Option(help="A field of the pace, such as lr=1e-4; may be repeated.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
    json_lines: Annotated[bool, typer.Option("--json", help="Print events as JSON lines.")] = False,
) -> None:
    """Teach a model the format of its environment; exit code 3 where its gate does not hold.

    Examples: tandem warmup --role planner --out models/planner; tandem warmup --team single --out models/single
    """
    of_team, of_role = _team(team), _role(team, role)
    from shared.config import override
    from shared.environments.registry import load_environment
    from shared.policy.model import resolve_device, set_threads
    from shared.policy.warmup.run import GateFailed, warm_up

    where = resolve_device(device)
    name = of_role if of_team == "pair" else of_team
    set_threads(threads, f"warmup {name}", where)
    loaded = load_environment(environment, override({}, option or [])).of_team(of_team)
    with _Reporter(of_role, name, json_lines) as reporter:
        try:
            result = warm_up(
                loaded,
                of_role,
                out,
                seed=seed,
                model_folder=model,
                steps=steps,
                demonstrations=demonstrations,
                pace=override({}, pace or []),
                device=where,
                report=reporter.progress,
            )
        except GateFailed as failure:
            reporter.close()
            print(f"tandem: {failure.detail}", file=sys.stderr)
            raise typer.Exit(GATE_EXIT) from None
    reporter.done(result)


def _team(team: str) -> Team:
    for known in get_args(Team):
        if team == known:
            return known
    raise typer.BadParameter(f"{team!r} is none of {', '.join(get_args(Team))}", param_hint="--team")


def _role(team: str, role: str | None) -> Role:
    """A team of one model has the planner's place: the planner server serves it."""
    if team != "pair":
        if role not in (None, "planner"):
            raise typer.BadParameter(f"the model of the team {team} has no role but planner", param_hint="--role")
        return "planner"
    for known in ROLES:
        if role == known:
            return known
    raise typer.BadParameter(f"{role!r} is none of {', '.join(ROLES)}", param_hint="--role")


class _Reporter:
    """Progress as JSON lines, or as a bar on stderr."""

    def __init__(self, role: Role, name: str, json_lines: bool) -> None:
        self._role = role
        self._name = name
        self._json = json_lines
        self._bar: Any = None

    def __enter__(self) -> "_Reporter":
        if not self._json:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(f"warm-up {self._name}", total=1.0, note="")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()

    def progress(self, now: "Progress") -> None:
        """One step was taken."""
        if self._bar is not None:
            note = f"step {now.step}  {now.phase}  look-up {now.lookup:.2f}  loss {now.loss:.2f}"
            self._bar.update(self._task, completed=now.fraction, note=note)
        elif now.step % REPORT_EVERY == 0 or now.fraction >= 1:
            self._print(
                "progress", step=now.step, phase=now.phase, lookup=now.lookup, loss=now.loss, fraction=now.fraction
            )

    def done(self, result: dict[str, Any]) -> None:
        """It ended, and its gates hold."""
        if self._json:
            self._print("done", **{key: value for key, value in result.items() if key != "role"})
        else:
            measured = "  ".join(f"{name} {value:.3f}" for name, value in result["measured"].items())
            print(f"warm-up of the {self._name}: {result['steps']} steps  {measured}".rstrip())

    def _print(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, "role": self._role, **fields}), flush=True)
