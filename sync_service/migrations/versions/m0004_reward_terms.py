"""The optional terms of the planner's reward: a score each in a rollout's row, null where a run has no such term.

Revision ID: 0004
Revises: 0003
"""

from alembic import op

from sync_service.migrations.statements import execute

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten, but every row is read once for their bounds."""
    execute(__file__)


def downgrade() -> None:
    """Drop the columns: what a service below this revision knows of a rollout stays."""
    for term in ("protocol", "efficiency", "diversity"):
        op.execute(f"ALTER TABLE rollouts DROP COLUMN r_{term}")
