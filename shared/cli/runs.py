"""`tandem runs` and `tandem groups`: what there is."""

from itertools import islice
from typing import Annotated, get_args

import typer

from shared.cli.options import SYNC_URL, AsJson, KeyFile, Run, Url, sync_server
from shared.errors import UserError

MOST = 200


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(runs)
    app.command()(groups)


def runs(url: Url = SYNC_URL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List the runs.

    Example: tandem runs --key-file viewer.key
    """
    from shared.cli.terminal import console, print_json, table
    from shared.schemas.run import RunView

    with sync_server(url, key_file) as server:
        found = list(server.items("/v1/runs", RunView))
    if as_json:
        return print_json([view.model_dump(mode="json") for view in found])
    columns = ("run", "state", "reason", "steps", "groups a step", "rollouts a group", "trains", "staleness")
    rows = (
        (
            view.run,
            view.state,
            view.reason,
            view.spec.steps,
            view.spec.groups_per_step,
            view.spec.rollouts_per_group,
            " ".join(view.spec.trained_roles),
            view.spec.staleness,
        )
        for view in found
    )
    console().print(table(columns, rows) if found else "there is no run yet")


def groups(
    run: Run,
    step: Annotated[int | None, typer.Option(min=1, help="Of this step only.")] = None,
    state: Annotated[str | None, typer.Option(help="Of this state only: open, complete or discarded.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = MOST,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List a run's groups, by step; `tandem show GROUP` lists the rollouts of one.

    Example: tandem groups museum-1 --step 12 --state complete
    """
    from shared.cli.names import run_name
    from shared.cli.terminal import console, print_json, table
    from shared.schemas.rollout import GroupState, GroupView

    if state is not None and state not in get_args(GroupState):
        raise UserError(f"--state {state!r}: a group is {', '.join(get_args(GroupState))}")
    with sync_server(url, key_file) as server:
        listed = server.items(f"/v1/runs/{run_name(run)}/groups", GroupView, step=step, state=state)
        found = list(islice(listed, limit))
        more = next(listed, None) is not None
    if as_json:
        return print_json([view.model_dump(mode="json") for view in found])
    columns = ("group", "step", "index", "state", "scoring", "reason", "final slots", "task")
    rows = ((v.group, v.step, v.index, v.state, v.scoring, v.reason, len(v.final_slots), v.task_id[:60]) for v in found)
    console().print(table(columns, rows) if found else "there is no such group")
    if more:
        console(stderr=True).print(f"there are more than {limit}: --step, --state or --limit chooses")
