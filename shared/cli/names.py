"""What a person names on the command line: a run, or a thing by its id. A mistake is said before anything is called."""

from pydantic import TypeAdapter, ValidationError

from shared.cli.server import Server
from shared.errors import UserError
from shared.ids import Id, Name
from shared.schemas.run import RunView

ENDED = ("finished", "failed", "purging")
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_ID: TypeAdapter[str] = TypeAdapter(Id)


def run_name(text: str) -> str:
    """`text`, if it may be a run's name."""
    try:
        return _NAME.validate_python(text)
    except ValidationError:
        raise UserError(f"{text!r} is no name of a run: letters, digits, dots, - and _") from None


def thing_id(text: str) -> str:
    """`text`, if it is an id."""
    try:
        return _ID.validate_python(text)
    except ValidationError:
        raise UserError(f"{text!r} is no id, which is 36 characters of 0-9, a-f and -") from None


def is_id(text: str) -> bool:
    """Whether `text` is an id, and so no name that a person would give a run."""
    try:
        return bool(_ID.validate_python(text))
    except ValidationError:
        return False


def choose_run(server: Server, name: str | None) -> str:
    """The run of that name; without one, the only run, or the only one that goes on. UserError lists what there is."""
    if name is not None:
        return run_name(name)
    runs = list(server.items("/v1/runs", RunView))
    if not runs:
        raise UserError(f"there is no run at {server.url} yet")
    for some in (runs, [view for view in runs if view.state not in ENDED]):
        if len(some) == 1:
            return some[0].run
    listed = ", ".join(f"{view.run} ({view.state})" for view in runs[:10])
    raise UserError(f"which run? {listed}{', ...' if len(runs) > 10 else ''}")
