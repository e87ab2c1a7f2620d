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
    """Drop the columns, where no run has used them: a version below this one would reward its rollouts otherwise."""
    some = "SELECT 1 FROM rollouts WHERE num_nonnulls(r_protocol, r_efficiency, r_diversity) > 0 LIMIT 1"
    if op.get_bind().exec_driver_sql(some).first():
        raise NotImplementedError("rollouts have terms of the reward that the version before does not know")
    for term in ("protocol", "efficiency", "diversity"):
        op.execute(f"ALTER TABLE rollouts DROP COLUMN r_{term}")
