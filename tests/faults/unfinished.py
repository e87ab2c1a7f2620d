"""What waits for ever: after a drain, everything that is not in a final state, by name."""

from collections.abc import Iterable

import psycopg

UNFINISHED = {
    "run": "SELECT run AS id, state FROM runs WHERE run = ANY(%s) AND state <> 'finished'",
    "group": """
        SELECT id, state || ' ' || scoring AS state FROM groups
        WHERE run = ANY(%s) AND (state = 'open' OR scoring = 'pending')""",
    "batch": "SELECT run || ' ' || step AS id, 'uncut' AS state FROM batches WHERE run = ANY(%s) AND cut_at IS NULL",
    "delivery": """
        SELECT run || ' ' || role || ' ' || step AS id, state FROM deliveries
        WHERE run = ANY(%s) AND state <> 'acked'""",
    "trajectory without a rollout": """
        SELECT id, state FROM trajectories
        WHERE run = ANY(%s) AND group_id IS NULL AND state IN ('scored', 'unscored')""",
    "trajectory of an acked step": """
        SELECT t.id, t.state FROM trajectories t JOIN deliveries d
            ON d.run = t.run AND d.step = t.batch_step AND d.role = 'executor'
        WHERE t.run = ANY(%s) AND d.state = 'acked' AND t.state IN ('scored', 'unscored')""",
}


def all_of(database: psycopg.Connection, runs: list[str]) -> Iterable[str]:
    """One line for each thing that has no final state."""
    for noun, statement in UNFINISHED.items():
        for row in database.execute(statement.encode(), (runs,)):
            yield f"{noun} {row['id']} is {row['state']}"
