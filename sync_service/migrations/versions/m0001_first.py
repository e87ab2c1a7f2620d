"""The first schema.

Revision ID: 0001
Revises: none
"""

from sync_service.migrations.statements import execute

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    execute(__file__)


def downgrade() -> None:
    """There is nothing before it."""
    raise NotImplementedError("the first schema has no predecessor; drop the database instead")
