"""Keys, the outbox of events, the stalls it told of, the audit of operators, and runs that are purged.

Revision ID: 0002
Revises: 0001
"""

from sync_service.migrations.statements import execute

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and let a run be in the state `purging`."""
    execute(__file__)


def downgrade() -> None:
    """Forward only: keys and the audit are not thrown away."""
    raise NotImplementedError("this migration is not undone; restore a backup instead")
