"""Migrations: bring a database to the schema that this code knows, and say whether it has it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import UserError

_FOLDER = Path(__file__).parent / "migrations"


def _config(url: str | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["url"] = url
    return config


def upgrade(url: str) -> None:
    """Run every migration that is missing; two at once wait for one another. Blocks."""
    command.upgrade(_config(url), "head")


def downgrade(url: str, revision: str) -> None:
    """Undo every migration after `revision`; all or none. Blocks.

    UserError: there is no such revision before this one, or a migration after it cannot be undone.
    """
    try:
        command.downgrade(_config(url), revision)
    except NotImplementedError as error:
        raise UserError(f"the schema cannot go down to {revision}: {error}") from None
    except CommandError as error:
        raise UserError(f"the schema cannot go down to {revision}: {str(error).splitlines()[0]}") from None


def head() -> str:
    """The revision that this code knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def before_head() -> str:
    """The revision below it."""
    below = ScriptDirectory.from_config(_config()).get_revision(head()).down_revision
    assert isinstance(below, str)
    return below


async def fault(connection: AsyncConnection) -> str | None:
    """None where the database has this code's schema, else what it has."""
    try:
        found = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one_or_none()
    except ProgrammingError:
        found = None
    return None if found == head() else f"the schema is at {found}, this service needs {head()}: run `migrate`"
