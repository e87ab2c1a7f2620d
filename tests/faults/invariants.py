"""What holds in the tables at any moment, between any two transactions: each statement finds what breaks it."""

from collections.abc import Iterable

import psycopg

INVARIANTS = {
    "a group counts its rollouts": """
        SELECT g.id FROM groups g LEFT JOIN rollouts r ON r.group_id = g.id AND r.state <> 'late'
        GROUP BY g.id, g.final, g.reported
        HAVING g.final <> count(r.id) OR g.reported <> count(r.id) FILTER (WHERE r.state = 'reported')""",
    "a batch counts its groups": """
        SELECT b.run, b.step FROM batches b JOIN groups g ON g.run = b.run AND g.step = b.step
        GROUP BY b.run, b.step
        HAVING b.opened <> count(*) OR b.closed <> count(*) FILTER (WHERE g.state <> 'open')
            OR b.sealed <> count(*) FILTER (WHERE g.scoring = 'sealed')""",
    "a batch is cut when all that is owed is closed": """
        SELECT b.run, b.step FROM batches b JOIN runs r ON r.run = b.run
        WHERE (b.cut_at IS NOT NULL) <> (b.closed = b.opened
            AND (b.opened = (r.spec->>'groups_per_step')::int OR r.state IN ('draining', 'finished')))""",
    "a delivery is ready at its cut, the executor's when it is sealed": """
        SELECT d.run, d.role, d.step FROM deliveries d JOIN batches b ON b.run = d.run AND b.step = d.step
        WHERE (d.state <> 'waiting')
            <> (b.cut_at IS NOT NULL AND (d.role = 'planner' OR b.sealed = b.opened))""",
    "a group is complete with enough reported rollouts, and only then": """
        SELECT g.id FROM groups g JOIN runs r ON r.run = g.run WHERE g.state <> 'open'
            AND (g.state = 'complete') <> (g.reported >= (r.spec->>'min_rollouts')::int)""",
    "a group with all its slots is closed": """
        SELECT g.id FROM groups g JOIN runs r ON r.run = g.run
        WHERE g.state = 'open' AND g.final >= (r.spec->>'rollouts_per_group')::int""",
    "a complete group that awaits nothing is sealed": """
        SELECT g.id FROM groups g WHERE g.state = 'complete' AND g.scoring = 'pending' AND NOT EXISTS (
            SELECT FROM trajectories t WHERE t.group_id = g.id AND t.state = 'awaited' AND t.named_by = 'reported')""",
    "what a rollout names knows it": """
        SELECT r.id, named.id FROM rollouts r, unnest(r.executor_trajectories) AS named (id)
        LEFT JOIN trajectories t ON t.id = named.id
        WHERE t.rollout_id IS DISTINCT FROM r.id OR t.group_id IS DISTINCT FROM r.group_id
            OR t.named_by IS DISTINCT FROM r.state""",
    "a batch holds the rows of complete groups": """
        SELECT t.id FROM trajectories t JOIN groups g ON g.id = t.group_id JOIN runs r ON r.run = t.run
        WHERE g.state <> 'open' AND r.spec->>'cutter' = 'group' AND t.batch_step IS DISTINCT FROM
            CASE WHEN g.state = 'complete' AND t.named_by = 'reported' THEN g.step END""",
    "one step of a stream is leased, and by its holder": """
        SELECT s.run, s.role FROM streams s JOIN deliveries d ON d.run = s.run AND d.role = s.role
        WHERE d.state = 'leased' GROUP BY s.run, s.role, s.worker, s.epoch
        HAVING count(*) > 1 OR s.worker IS NULL OR max(d.epoch) <> s.epoch""",
    "no step is acked before the ones below it": """
        SELECT s.run, s.role FROM streams s JOIN deliveries d ON d.run = s.run AND d.role = s.role
        WHERE d.step <= s.acked_step AND d.state <> 'acked'""",
    "an ack gives every row its fate": """
        SELECT t.id FROM trajectories t JOIN deliveries d
            ON d.run = t.run AND d.step = t.batch_step AND d.role = 'executor'
        WHERE (d.state = 'acked' AND t.state IN ('scored', 'unscored')) OR (d.state <> 'acked' AND t.state = 'trained')
        UNION ALL
        SELECT r.id FROM rollouts r JOIN groups g ON g.id = r.group_id
            JOIN deliveries d ON d.run = g.run AND d.step = g.step AND d.role = 'planner'
        WHERE r.state = 'reported' AND g.state = 'complete'
            AND (d.state = 'acked') <> (r.multiplicity IS NOT NULL OR r.fate_reason IS NOT NULL)""",
    "a finished run has nothing left": """
        SELECT r.run FROM runs r JOIN deliveries d ON d.run = r.run
        WHERE r.state = 'finished' AND d.state <> 'acked'""",
}


def broken(database: psycopg.Connection) -> Iterable[str]:
    """One line for each thing that breaks an invariant, over all runs."""
    for what, statement in INVARIANTS.items():
        for row in database.execute(statement.encode()):
            yield f"{what}: not so for {row}"
