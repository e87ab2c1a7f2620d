"""Pages keep room for the rows that change, so that a change is written beside the row and in no index.

Revision ID: 0003
Revises: 0002
"""

from alembic import op

from sync_service.migrations.statements import execute

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """For pages that are written from now on: no table is rewritten, and no lock keeps readers or writers out."""
    execute(__file__)


def downgrade() -> None:
    """Pages that are written from now on are filled again; no row is touched."""
    for table in ("trajectories", "rollouts"):
        op.execute(f"ALTER TABLE {table} RESET (fillfactor)")
