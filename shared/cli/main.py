"""The `tandem` command. It imports no server: it starts processes, and servers add commands by entry point."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

import typer

from shared.errors import TandemError, from_os_error

app = typer.Typer(
    name="tandem",
    help="Co-train a planner and an executor that share no GPU and no gradient.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _add_server_commands() -> None:
    """Each entry point of the group `tandem.commands` is a `main(argv)`; it is imported only when it is called."""
    for entry in entry_points(group="tandem.commands"):
        help = f"Run the {entry.name.replace('-', ' ')}."
        app.command(entry.name, help=help, context_settings=PASS_THROUGH)(_runner(entry))


def _runner(entry: EntryPoint) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        sys.exit(entry.load()(context.args))

    return run


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    from shared.cli import demo_commands, keys, warmup
    from shared.cli.demo_llm import command as demo_llm

    demo_commands.add_to(app)
    demo_llm.add_to(app)
    warmup.add_to(app)
    keys.add_to(app)
    _add_server_commands()
    try:
        app()
    except (TandemError, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            error = from_os_error(error)
        print(f"tandem: {error.detail if isinstance(error, TandemError) else error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
