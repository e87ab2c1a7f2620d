"""Runs with a long history: set-wise SQL writes what their steps would have left, when both roles have acked them.

Ids are in the order of time, as real ones are. Foreign keys are not checked while it fills: the rows fit by their make.

A page of trajectories is as full as traffic leaves it: there a page takes rows while they are awaited, so small, until
30% of it is full, and keeps all of them as they grow. Written at their full size up to those 30%, rows leave a gap that
a small new one fits in; then every insert goes to another page of the past, which no real history makes it do.
"""

from dataclasses import dataclass

import psycopg

from sync_service.tables import trajectories
from tests.benchmarks.sync.consume import ROLES, checksum

SHARES = {"bulk": 0.6, "single": 0.2, "paced": 0.05, "stream": 0.15}
"""How much of the history each run has; the streams share theirs."""

AS_DENSE_AS_TRAFFIC = 46
"""Percent of a page: 20 rows, as `pgstattuple` counts after traffic."""

_FILL = """
ALTER TABLE trajectories SET (fillfactor = %(dense)s);
SET session_replication_role = replica;
SET synchronous_commit = off;
UPDATE runs SET state = 'running' WHERE run = %(run)s;
INSERT INTO batches (run, step, opened, closed, sealed, cut_at)
SELECT %(run)s, step, %(groups)s, %(groups)s, %(groups)s, now() FROM generate_series(1, %(steps)s) AS step;
INSERT INTO deliveries (id, run, role, step, state, epoch, ready_at, leased_at, acked_at, outcome, updates, digest)
SELECT uuidv7(), %(run)s, role, step, 'acked', 1, now(), now(), now(), 'trained', step, '\\x00'
FROM generate_series(1, %(steps)s) AS step, unnest(ARRAY['planner', 'executor']) AS role;
UPDATE streams SET epoch = 1, acked_step = %(steps)s, live_step = %(steps)s WHERE run = %(run)s;
CREATE TEMP TABLE slots AS
SELECT n, n / (%(groups)s * %(slots)s) + 1 AS step, n / %(slots)s %% %(groups)s AS index, n %% %(slots)s AS slot,
    uuidv7(ago) AS id, ARRAY(SELECT uuidv7(ago) FROM generate_series(1, %(calls)s) WHERE n >= 0) AS named
FROM generate_series(0, %(rollouts)s - 1) AS n, make_interval(secs => 86400.0 * (n / %(rollouts)s - 1)) AS ago;
ALTER TABLE slots ADD COLUMN group_id uuid;
UPDATE slots s SET group_id = first.id FROM slots first WHERE first.n = s.n - s.slot;
INSERT INTO groups (id, run, step, index, task_id, state, scoring, final, reported, deadline, closed_at, score_deadline)
SELECT group_id, %(run)s, step, index, 'task-' || index, 'complete', 'sealed', %(slots)s, %(slots)s, now(), now(), now()
FROM slots WHERE slot = 0;
INSERT INTO rollouts (id, run, group_id, slot, state, planner_trajectory, r_format, r_correct, executor_trajectories,
    tokens, version_epoch, version_step, version_updates, digest, multiplicity)
SELECT id, %(run)s, group_id, slot, 'reported', gen_random_uuid(), 1, 1.0, named, 700, 1, 0, 0,
    decode(md5(id::text), 'hex'), 1
FROM slots;
INSERT INTO trajectories (id, run, rollout_id, group_id, named_by, batch_step, state, r_format, r_expert, tokens,
    version_epoch, version_step, version_updates, accepted, digest, received_at, multiplicity)
SELECT one, %(run)s, id, group_id, 'reported', step, 'trained', 1, 0.5, 200, 1, 0, 0, true,
    decode(md5(one::text), 'hex'), now(), 1
FROM slots, unnest(slots.named) AS one;
DROP TABLE slots;
ALTER TABLE trajectories SET (fillfactor = %(fillfactor)s);
"""
_VERSION = """
INSERT INTO policies (run, role, epoch, step, updates, checksum, worker, confirmed_at)
VALUES (%s, %s, 1, %s, %s, %s, 'bench', now())
"""


@dataclass(frozen=True)
class Past:
    """A declared run that is to have a history of at least so many rollouts."""

    run: str
    rollouts: int
    groups: int
    slots: int
    calls: int

    @property
    def steps(self) -> int:
        """Whole steps."""
        return max(1, -(-self.rollouts // (self.groups * self.slots)))


def fill(database_url: str, past: Past) -> None:
    """Write the history of one run. Blocks."""
    shape = {
        "run": past.run,
        "steps": past.steps,
        "groups": past.groups,
        "slots": past.slots,
        "calls": past.calls,
        "rollouts": past.steps * past.groups * past.slots,
        "dense": AS_DENSE_AS_TRAFFIC,
        "fillfactor": int(trajectories.dialect_options["postgresql"]["with"]["fillfactor"]),
    }
    with psycopg.connect(database_url, autocommit=True) as connection:
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(_FILL, shape)
        for role in ROLES:
            connection.execute(_VERSION, (past.run, role, past.steps, past.steps, checksum(role, past.steps)))


def settle(database_url: str) -> None:
    """Statistics, visibility map and a checkpoint: what a database has long done when a history is that old. Blocks."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE, FREEZE)")
        connection.execute("CHECKPOINT")
