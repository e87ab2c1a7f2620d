"""The first schema. Its statements are in the file beside this one.

Revision ID: 0001
Revises: none
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    for statement in (Path(__file__).parent / "m0001_first.sql").read_text().split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    """There is nothing before it."""
    raise NotImplementedError("the first schema has no predecessor; drop the database instead")
