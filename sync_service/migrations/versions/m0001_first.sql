CREATE TABLE runs (
    run TEXT NOT NULL,
    spec JSONB NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    declared_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    paused_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (run),
    CONSTRAINT state_known CHECK (state IN ('declared', 'running', 'paused', 'draining', 'finished', 'failed')),
    CONSTRAINT paused_at_while_paused CHECK ((state = 'paused') = (paused_at IS NOT NULL))
);

CREATE TABLE batches (
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    closed INTEGER DEFAULT '0' NOT NULL,
    sealed INTEGER DEFAULT '0' NOT NULL,
    cut_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (run, step),
    CONSTRAINT counts_in_order CHECK (0 <= sealed AND sealed <= closed AND closed <= opened),
    FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE INDEX batches_uncut ON batches (run, step) WHERE cut_at IS NULL;

CREATE TABLE policies (
    run TEXT NOT NULL,
    role TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    step INTEGER NOT NULL,
    updates INTEGER NOT NULL,
    checksum TEXT NOT NULL,
    worker TEXT NOT NULL,
    confirmed_at TIMESTAMP WITH TIME ZONE,
    superseded BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (run, role, epoch, step),
    CONSTRAINT role_known CHECK (role IN ('planner', 'executor')),
    FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE TABLE streams (
    run TEXT NOT NULL,
    role TEXT NOT NULL,
    epoch INTEGER DEFAULT '0' NOT NULL,
    worker TEXT,
    expires_at TIMESTAMP WITH TIME ZONE,
    acked_step INTEGER DEFAULT '0' NOT NULL,
    live_step INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (run, role),
    CONSTRAINT role_known CHECK (role IN ('planner', 'executor')),
    CONSTRAINT held_until CHECK ((worker IS NULL) = (expires_at IS NULL)),
    CONSTRAINT steps_in_order CHECK (0 <= live_step AND live_step <= acked_step),
    FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE INDEX streams_held ON streams (expires_at) WHERE worker IS NOT NULL;

CREATE TABLE traffic (
    run TEXT NOT NULL,
    bytes_received BIGINT NOT NULL,
    PRIMARY KEY (run),
    FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE TABLE workers (
    run TEXT NOT NULL,
    worker TEXT NOT NULL,
    role TEXT NOT NULL,
    url TEXT NOT NULL,
    device TEXT NOT NULL,
    version_epoch INTEGER,
    version_step INTEGER,
    version_updates INTEGER,
    doing TEXT NOT NULL,
    draining BOOLEAN NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (run, worker),
    CONSTRAINT role_known CHECK (role IN ('planner', 'executor')),
    FOREIGN KEY(run) REFERENCES runs (run)
);

CREATE TABLE deliveries (
    id UUID NOT NULL,
    run TEXT NOT NULL,
    role TEXT NOT NULL,
    step INTEGER NOT NULL,
    state TEXT DEFAULT 'waiting' NOT NULL,
    epoch INTEGER,
    attempts INTEGER DEFAULT '0' NOT NULL,
    error TEXT,
    ready_at TIMESTAMP WITH TIME ZONE,
    leased_at TIMESTAMP WITH TIME ZONE,
    acked_at TIMESTAMP WITH TIME ZONE,
    outcome TEXT,
    reason TEXT,
    updates INTEGER,
    statistics JSONB,
    histograms JSONB,
    digest BYTEA,
    by_operator BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(run, step) REFERENCES batches (run, step),
    CONSTRAINT deliveries_place UNIQUE (run, role, step),
    CONSTRAINT role_known CHECK (role IN ('planner', 'executor')),
    CONSTRAINT state_known CHECK (state IN ('waiting', 'ready', 'leased', 'acked', 'dead')),
    CONSTRAINT outcome_known CHECK (outcome IN ('trained', 'skipped')),
    CONSTRAINT acked_has_outcome CHECK ((state = 'acked') = (outcome IS NOT NULL))
);

CREATE INDEX deliveries_unacked ON deliveries (run, role, step) WHERE state <> 'acked';

CREATE TABLE groups (
    id UUID NOT NULL,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    index INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    state TEXT DEFAULT 'open' NOT NULL,
    scoring TEXT DEFAULT 'pending' NOT NULL,
    reason TEXT,
    final INTEGER DEFAULT '0' NOT NULL,
    reported INTEGER DEFAULT '0' NOT NULL,
    opened_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    deadline TIMESTAMP WITH TIME ZONE NOT NULL,
    closed_at TIMESTAMP WITH TIME ZONE,
    score_deadline TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (id),
    FOREIGN KEY(run, step) REFERENCES batches (run, step),
    CONSTRAINT groups_place UNIQUE (run, step, index),
    CONSTRAINT state_known CHECK (state IN ('open', 'complete', 'discarded')),
    CONSTRAINT scoring_known CHECK (scoring IN ('pending', 'sealed')),
    CONSTRAINT counts_in_order CHECK (0 <= reported AND reported <= final)
);

CREATE INDEX groups_due ON groups (deadline) WHERE state = 'open';

CREATE INDEX groups_score_due ON groups (score_deadline) WHERE state = 'complete' AND scoring = 'pending';

CREATE TABLE rollouts (
    id UUID NOT NULL,
    run TEXT NOT NULL,
    group_id UUID NOT NULL,
    slot INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    planner_trajectory UUID,
    r_format SMALLINT,
    r_correct DOUBLE PRECISION,
    executor_trajectories UUID[] NOT NULL,
    tokens BIGINT NOT NULL,
    version_epoch INTEGER,
    version_step INTEGER,
    version_updates INTEGER,
    digest BYTEA NOT NULL,
    received_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    multiplicity INTEGER,
    fate_reason TEXT,
    PRIMARY KEY (id),
    CONSTRAINT state_known CHECK (state IN ('reported', 'aborted', 'late')),
    CONSTRAINT r_format_known CHECK (r_format IN ('0', '1')),
    CONSTRAINT r_correct_in_bounds CHECK (r_correct >= 0 AND r_correct <= 1),
    CONSTRAINT reported_is_whole CHECK (state <> 'reported' OR (planner_trajectory IS NOT NULL AND r_format IS NOT NULL AND r_correct IS NOT NULL)),
    FOREIGN KEY(group_id) REFERENCES groups (id)
);

CREATE INDEX rollouts_run ON rollouts (run, state);

CREATE UNIQUE INDEX rollouts_slot ON rollouts (group_id, slot) WHERE state <> 'late';

CREATE TABLE trajectories (
    id UUID NOT NULL,
    run TEXT NOT NULL,
    rollout_id UUID NOT NULL,
    group_id UUID,
    named_by TEXT,
    batch_step INTEGER,
    state TEXT NOT NULL,
    reason TEXT,
    unscored_reason TEXT,
    r_format SMALLINT,
    r_expert DOUBLE PRECISION,
    tokens BIGINT,
    version_epoch INTEGER,
    version_step INTEGER,
    version_updates INTEGER,
    accepted BOOLEAN,
    digest BYTEA,
    received_at TIMESTAMP WITH TIME ZONE,
    orphan_at TIMESTAMP WITH TIME ZONE,
    multiplicity INTEGER,
    PRIMARY KEY (id),
    CONSTRAINT state_known CHECK (state IN ('awaited', 'scored', 'unscored', 'trained', 'dropped', 'late', 'orphan')),
    CONSTRAINT named_by_known CHECK (named_by IN ('reported', 'aborted', 'late')),
    CONSTRAINT r_format_known CHECK (r_format IN ('0', '1')),
    CONSTRAINT r_expert_in_bounds CHECK (r_expert >= 0 AND r_expert <= 1),
    CONSTRAINT awaited_is_not_submitted CHECK ((state = 'awaited') = (digest IS NULL)),
    CONSTRAINT trained_has_multiplicity CHECK ((state = 'trained') = (multiplicity IS NOT NULL)),
    CONSTRAINT scored_is_whole CHECK (state <> 'scored' OR (r_format IS NOT NULL AND (r_format = 0 OR r_expert IS NOT NULL))),
    FOREIGN KEY(group_id) REFERENCES groups (id)
)
 WITH (fillfactor = 80);

CREATE INDEX trajectories_batch ON trajectories (run, batch_step);

CREATE INDEX trajectories_group ON trajectories (group_id);

CREATE INDEX trajectories_homeless ON trajectories (rollout_id) WHERE group_id IS NULL;
