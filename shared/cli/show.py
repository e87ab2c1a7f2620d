"""`tandem show`: a run with its reward formulas, or a rollout with its calls, rewards, fates and, on demand, texts."""

from typing import TYPE_CHECKING, Annotated

import typer

from shared.cli.options import SYNC_URL, AsJson, KeyFile, Url, read_key, sync_server
from shared.errors import NotFound

if TYPE_CHECKING:
    from shared.cli.server import Server


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(show)


def show(
    id: Annotated[
        str, typer.Argument(help="The id of a rollout, or of a group: then all of its rollouts; or a run's name.")
    ],
    text: Annotated[
        bool, typer.Option("--text", help="Fetch the texts, too, from the servers that have them.")
    ] = False,
    url: Url = SYNC_URL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a rollout and the executor's calls that it made; or a run. Texts need a key of role viewer or operator.

    Examples: tandem show museum-1; tandem show 0197a6f0-0000-7000-8000-00000000000a --text;
    tandem show 0197a6f0-0000-7000-8000-000000000001
    """
    from shared.cli.account import account_of, accounts_in
    from shared.cli.account_view import render
    from shared.cli.names import is_id
    from shared.cli.terminal import console, print_json
    from shared.cli.texts import Texts

    with sync_server(url, key_file) as server:
        if not is_id(id):
            return _show_run(server, id, as_json)
        try:
            accounts = [account_of(server, id)]
        except NotFound:
            accounts = accounts_in(server, id)
        texts = Texts(server, accounts[0].run.run, read_key(key_file)) if text and accounts else None
        told = [texts.of(account) if texts else {} for account in accounts]
    if as_json:
        return print_json([account.plain() | {"texts": t} for account, t in zip(accounts, told, strict=True)])
    if not accounts:
        print(f"group {id} has no rollout yet")
    for account, t in zip(accounts, told, strict=True):
        console().print(render(account, t), soft_wrap=False)


def _show_run(server: "Server", name: str, as_json: bool) -> None:
    from shared.cli.names import run_name
    from shared.cli.run_view import plain, render
    from shared.cli.terminal import console, print_json
    from shared.schemas.run import RunView

    view = server.get(f"/v1/runs/{run_name(name)}", RunView)
    print_json(plain(view)) if as_json else console().print(render(view))
