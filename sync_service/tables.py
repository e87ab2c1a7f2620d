"""The tables: ids, scalars, codes and names; never a text of a model, never a token.

A value that would poison a batch is refused here, too: NaN is greater than every number in Postgres, so the bounds
refuse it. `migrations/` is the schema; a test keeps this description equal to it.
"""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from shared.schemas.base import KEY_ROLES
from shared.schemas.run import TERMS
from sync_service.states import DELIVERY, GROUP, ROLLOUT, RUN, SCORING, TRAJECTORY

metadata = sa.MetaData()
Uuid = sa.Uuid(as_uuid=False)
Time = sa.DateTime(timezone=True)


def _in(column: str, values) -> sa.CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def _unit(column: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} >= 0 AND {column} <= 1", name=f"{column}_in_bounds")


def _version() -> tuple[sa.Column, ...]:
    return tuple(sa.Column(f"version_{part}", sa.Integer) for part in ("epoch", "step", "updates"))


runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("spec", JSONB, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("declared_at", Time, nullable=False, server_default=sa.func.now()),
    sa.Column("paused_at", Time),
    _in("state", RUN),
    sa.CheckConstraint("(state = 'paused') = (paused_at IS NOT NULL)", name="paused_at_while_paused"),
)

traffic = sa.Table(
    "traffic",  # apart from `runs`, whose rows are locked
    metadata,
    sa.Column("run", sa.Text, sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("bytes_received", sa.BigInteger, nullable=False),
)

batches = sa.Table(
    "batches",  # a step of a run: how many of its groups are opened, closed and sealed
    metadata,
    sa.Column("run", sa.Text, sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("opened", sa.Integer, nullable=False),
    sa.Column("closed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("sealed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("cut_at", Time),
    sa.CheckConstraint("0 <= sealed AND sealed <= closed AND closed <= opened", name="counts_in_order"),
    sa.Index("batches_uncut", "run", "step", postgresql_where=sa.text("cut_at IS NULL")),
)

groups = sa.Table(
    "groups",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("index", sa.Integer, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="open"),
    sa.Column("scoring", sa.Text, nullable=False, server_default="pending"),
    sa.Column("reason", sa.Text),
    sa.Column("final", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reported", sa.Integer, nullable=False, server_default="0"),
    sa.Column("opened_at", Time, nullable=False, server_default=sa.func.now()),
    sa.Column("deadline", Time, nullable=False),
    sa.Column("closed_at", Time),
    sa.Column("score_deadline", Time),
    sa.ForeignKeyConstraint(["run", "step"], ["batches.run", "batches.step"]),
    sa.UniqueConstraint("run", "step", "index", name="groups_place"),
    _in("state", GROUP),
    _in("scoring", SCORING),
    sa.CheckConstraint("0 <= reported AND reported <= final", name="counts_in_order"),
    sa.Index("groups_due", "deadline", postgresql_where=sa.text("state = 'open'")),
    sa.Index(
        "groups_score_due",
        "score_deadline",
        postgresql_where=sa.text("state = 'complete' AND scoring = 'pending'"),
    ),
)

rollouts = sa.Table(
    "rollouts",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("group_id", Uuid, sa.ForeignKey("groups.id"), nullable=False),
    sa.Column("slot", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("planner_trajectory", Uuid),
    sa.Column("r_format", sa.SmallInteger),
    sa.Column("r_correct", sa.Double),
    *(sa.Column(f"r_{term}", sa.Double) for term in TERMS),
    sa.Column("executor_trajectories", ARRAY(Uuid), nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    *_version(),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # of the body: the same one again is answered as before
    sa.Column("received_at", Time, nullable=False, server_default=sa.func.now()),
    sa.Column("multiplicity", sa.Integer),  # the planner trajectory's fate
    sa.Column("fate_reason", sa.Text),
    _in("state", ROLLOUT),
    _in("r_format", (0, 1)),
    _unit("r_correct"),
    *(_unit(f"r_{term}") for term in TERMS),
    sa.CheckConstraint(
        "state <> 'reported' OR (planner_trajectory IS NOT NULL AND r_format IS NOT NULL AND r_correct IS NOT NULL)",
        name="reported_is_whole",
    ),
    sa.Index("rollouts_slot", "group_id", "slot", unique=True, postgresql_where=sa.text("state <> 'late'")),
    sa.Index("rollouts_run", "run", "state"),
    sa.Index("rollouts_group", "group_id"),  # the late ones, too: a group that is purged takes them along
    postgresql_with={"fillfactor": "50"},  # room for the fate beside the row
)

trajectories = sa.Table(
    "trajectories",  # the executor's; the planner's are the `planner_trajectory` of their rollouts
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("rollout_id", Uuid, nullable=False),  # no foreign key: scores may arrive before their rollout
    sa.Column("group_id", Uuid, sa.ForeignKey("groups.id")),  # null until the rollout is known
    sa.Column("named_by", sa.Text),  # the state of the rollout that names it
    sa.Column("batch_step", sa.Integer),  # the step whose delivery holds it
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("unscored_reason", sa.Text),
    sa.Column("r_format", sa.SmallInteger),
    sa.Column("r_expert", sa.Double),
    sa.Column("tokens", sa.BigInteger),
    *_version(),
    sa.Column("accepted", sa.Boolean),
    sa.Column("digest", sa.LargeBinary),
    sa.Column("received_at", Time),
    sa.Column("orphan_at", Time),  # the deadline of one whose rollout is unknown
    sa.Column("multiplicity", sa.Integer),
    _in("state", TRAJECTORY),
    _in("named_by", ROLLOUT),
    _in("r_format", (0, 1)),
    _unit("r_expert"),
    sa.CheckConstraint("(state = 'awaited') = (digest IS NULL)", name="awaited_is_not_submitted"),
    sa.CheckConstraint("(state = 'trained') = (multiplicity IS NOT NULL)", name="trained_has_multiplicity"),
    sa.CheckConstraint(
        "state <> 'scored' OR (r_format IS NOT NULL AND (r_format = 0 OR r_expert IS NOT NULL))",
        name="scored_is_whole",
    ),
    # No index names `state`: its changes stay heap-only.
    sa.Index("trajectories_group", "group_id"),
    sa.Index("trajectories_batch", "run", "batch_step"),
    sa.Index("trajectories_homeless", "rollout_id", postgresql_where=sa.text("group_id IS NULL")),
    postgresql_with={"fillfactor": "30"},  # named, then scored, then trained: each new version fits beside the old
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="waiting"),
    sa.Column("epoch", sa.Integer),  # of its last lease
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("error", sa.Text),  # why the last attempt failed
    sa.Column("ready_at", Time),
    sa.Column("leased_at", Time),
    sa.Column("acked_at", Time),
    sa.Column("outcome", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("updates", sa.Integer),
    sa.Column("statistics", JSONB),
    sa.Column("histograms", JSONB),
    sa.Column("digest", sa.LargeBinary),  # of the ack
    sa.Column("by_operator", sa.Boolean, nullable=False, server_default=sa.false()),  # skipped by hand: stays so
    sa.ForeignKeyConstraint(["run", "step"], ["batches.run", "batches.step"]),
    sa.UniqueConstraint("run", "role", "step", name="deliveries_place"),
    _in("role", ("planner", "executor")),
    _in("state", DELIVERY),
    _in("outcome", ("trained", "skipped")),
    sa.CheckConstraint("(state = 'acked') = (outcome IS NOT NULL)", name="acked_has_outcome"),
    sa.Index("deliveries_unacked", "run", "role", "step", postgresql_where=sa.text("state <> 'acked'")),
)

streams = sa.Table(
    "streams",
    metadata,
    sa.Column("run", sa.Text, sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
    sa.Column("worker", sa.Text),
    sa.Column("expires_at", Time),
    sa.Column("acked_step", sa.Integer, nullable=False, server_default="0"),
    sa.Column("live_step", sa.Integer, nullable=False, server_default="0"),
    _in("role", ("planner", "executor")),
    sa.CheckConstraint("(worker IS NULL) = (expires_at IS NULL)", name="held_until"),
    sa.CheckConstraint("0 <= live_step AND live_step <= acked_step", name="steps_in_order"),
    sa.Index("streams_held", "expires_at", postgresql_where=sa.text("worker IS NOT NULL")),
)

policies = sa.Table(
    "policies",
    metadata,
    sa.Column("run", sa.Text, sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("updates", sa.Integer, nullable=False),
    sa.Column("checksum", sa.Text, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("confirmed_at", Time),  # null: resumed from, not loaded by the samplers yet
    sa.Column("superseded", sa.Boolean, nullable=False, server_default=sa.false()),
    _in("role", ("planner", "executor")),
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("run", sa.Text, sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("worker", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("device", sa.Text, nullable=False),
    *_version(),
    sa.Column("doing", sa.Text, nullable=False),
    sa.Column("draining", sa.Boolean, nullable=False),
    sa.Column("seen_at", Time, nullable=False),
    _in("role", ("planner", "executor")),
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),  # the public part; the secret is kept as its hash only
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("run", sa.Text),  # null: every run
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("created_at", Time, nullable=False, server_default=sa.func.now()),
    sa.Column("revoked_at", Time),
    _in("role", KEY_ROLES),
)

audit = sa.Table(
    "audit",  # every write of an operator
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("at", Time, nullable=False, server_default=sa.func.now()),
    sa.Column("key", sa.Text),  # null: the loopback mode without keys
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("run", sa.Text),
    sa.Column("details", JSONB, nullable=False),
    sa.Index("audit_run", "run", "id"),
)

events = sa.Table(
    "events",  # the outbox: written in the transaction of what happened, numbered after its commit
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("position", sa.BigInteger),  # the cursor; null until one numberer at a time gives it
    sa.Column("run", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", Time, nullable=False, server_default=sa.func.now()),
    sa.Column("body", JSONB, nullable=False),
    sa.Index("events_position", "position", unique=True),
    sa.Index("events_run", "run", "position"),
    sa.Index("events_unnumbered", "id", postgresql_where=sa.text("position IS NULL")),
)

event_positions = sa.Sequence("event_positions", metadata=metadata)  # never goes back, whatever is purged

stalls = sa.Table(
    "stalls",  # those that go on, as told by an event: what ends is told once, and what goes on is not told again
    metadata,
    sa.Column("run", sa.Text, sa.ForeignKey("runs.run"), primary_key=True),
    sa.Column("code", sa.Text, primary_key=True),
    sa.Column("who", sa.Text, primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),  # 0: of no step
    sa.Column("since", Time, nullable=False),
)
