"""What a long run has beside the rows that `tests/benchmarks/sync/history.py` writes: acks with statistics, versions,
times that are spread over its steps, discarded groups, and events.
"""

import psycopg

from tests.benchmarks.sync.history import Past

STEP_S = 60.0

_ENRICH = """
SET session_replication_role = replica;
SET synchronous_commit = off;
UPDATE deliveries d SET
    ready_at = now() - make_interval(secs => (%(steps)s - step) * %(step_s)s + 40),
    leased_at = now() - make_interval(secs => (%(steps)s - step) * %(step_s)s + 35),
    acked_at = now() - make_interval(secs => (%(steps)s - step) * %(step_s)s + 5),
    statistics = (
        SELECT jsonb_object_agg(name, round((random() * 0.5)::numeric, 9)) FROM unnest(string_to_array(
            'reward_deviation reward_variance_within reward_variance_between effective_sample_size unique_action_rate '
            'staleness_mean staleness_max dead_rows tokens trained_tokens micro_batches seconds tokens_per_second loss '
            'gradient_norm learning_rate clip_fraction ratio_mean kl gap_mean gap_max format_mean calls_mean', ' '
        )) AS name WHERE d.step > 0
    ) || jsonb_build_object(
        'groups', %(groups)s, 'groups_dead', step %% %(groups)s, 'rows', 64, 'rows_distinct', 40,
        'reward_mean', 0.2 + 0.6 * step / %(steps)s, 'correct_mean', 0.2 + 0.6 * step / %(steps)s,
        'rows_copied', 20, 'rows_dropped', 2, 'rows_masked', 4, 'trajectories', 40, 'rollouts', 64
    ),
    histograms = '{"staleness": {"0": 40, "1": 24}, "fates": {"trained": 60, "dead-group": 4},
        "calls_per_rollout": {"0": 4, "1": 20, "2": 20, "3": 12, "4": 6, "6": 2}}'
WHERE run = %(run)s;
UPDATE groups SET closed_at = now() - make_interval(secs => (%(steps)s - step) * %(step_s)s + 45),
    state = CASE WHEN index = 0 AND step %% 10 = 0 THEN 'discarded' ELSE state END,
    reason = CASE WHEN index = 0 AND step %% 10 = 0 THEN 'too-few-rollouts' END
WHERE run = %(run)s;
INSERT INTO policies (run, role, epoch, step, updates, checksum, worker, confirmed_at)
SELECT run, role, 1, step, step, md5(step::text), 'bench', acked_at + interval '1 s' FROM deliveries WHERE run = %(run)s
ON CONFLICT DO NOTHING;
INSERT INTO events (position, run, kind, at, body)
SELECT nextval('event_positions'), run, 'group-closed', closed_at,
    jsonb_build_object('group', id, 'step', step, 'reported', 8, 'final', 8)
FROM groups WHERE run = %(run)s ORDER BY step, index;
"""


def enrich(database_url: str, past: Past) -> None:
    """Give a run that `fill` has filled what its pages read. Blocks."""
    shape = {"run": past.run, "steps": past.steps, "groups": past.groups, "step_s": STEP_S}
    with psycopg.connect(database_url, autocommit=True) as connection, psycopg.ClientCursor(connection) as cursor:
        cursor.execute(_ENRICH, shape)
