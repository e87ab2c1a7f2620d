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


def build() -> typer.Typer:
    """The application with all its commands."""
    from shared.cli import demo_commands, doctor, evaluate, export, keys, runs, serve, show, status, steer, tail, warmup
    from shared.cli.demo_llm import command as demo_llm
    from shared.cli.experiment import command as experiment

    if not app.registered_commands:
        for module in (
            demo_commands,
            demo_llm,
            experiment,
            warmup,
            status,
            runs,
            show,
            tail,
            steer,
            evaluate,
            export,
            serve,
        ):
            module.add_to(app)
        for module in (keys, doctor):
            module.add_to(app)
        for entry in entry_points(group="tandem.operator"):  # a server's own: `add_to(app)`
            entry.load()(app)
        _add_server_commands()
    return app


def main() -> None:
    """Run the command line; a user's mistake, a refusal, a server that is away: one line on stderr and exit code 2."""
    from shared.cli.terminal import clean

    try:
        sys.exit(build()(standalone_mode=False))  # a command that ends early gives its exit code
    except typer.TyperException as error:
        told = _mistake(error)
    except (TandemError, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            error = from_os_error(error)
        told = error.detail if isinstance(error, TandemError) else str(error)
    if told:
        print(f"tandem: {clean(told)}", file=sys.stderr)
    sys.exit(2)


def _mistake(error: typer.TyperException) -> str:
    """A command line that is wrong, in one line; nothing where the help was shown instead."""
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "format_message", error.__str__)())
    return message and f"{message.rstrip('.')}; see: {context.command_path if context else 'tandem'} --help"


if __name__ == "__main__":
    main()
