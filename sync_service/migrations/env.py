"""Runs migrations on the database that `sync_service.migrate` names, one process at a time."""

from alembic import context
from sqlalchemy import create_engine, pool, text

from sync_service.tables import metadata

_LOCK_KEY = 0x7A_4D_5C


def run() -> None:
    """All of them in one transaction, under an advisory lock."""
    engine = create_engine(context.config.attributes["url"], poolclass=pool.NullPool)
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        context.configure(connection=connection, target_metadata=metadata)
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


run()
