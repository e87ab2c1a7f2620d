"""A migration's statements lie beside it, as plain SQL."""

from pathlib import Path

from alembic import op


def execute(migration: str) -> None:
    """Run every statement of the `.sql` file beside the migration module at `migration`."""
    for statement in Path(migration).with_suffix(".sql").read_text().split(";\n"):
        if statement.strip():
            op.execute(statement)
