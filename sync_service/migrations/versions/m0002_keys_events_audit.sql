CREATE TABLE keys (
    key TEXT NOT NULL,
    role TEXT NOT NULL,
    run TEXT,
    hash BYTEA NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (key),
    CONSTRAINT role_known CHECK (role IN ('planner', 'executor', 'operator', 'viewer', 'metrics'))
);

CREATE TABLE audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    key TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    run TEXT,
    details JSONB NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX audit_run ON audit (run, id);

CREATE TABLE events (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    position BIGINT,
    run TEXT NOT NULL,
    kind TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    body JSONB NOT NULL,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX events_position ON events (position);

CREATE INDEX events_run ON events (run, position);

CREATE INDEX events_unnumbered ON events (id) WHERE position IS NULL;

CREATE INDEX rollouts_group ON rollouts (group_id);

CREATE SEQUENCE event_positions;

CREATE TABLE stalls (
    run TEXT NOT NULL,
    code TEXT NOT NULL,
    who TEXT NOT NULL,
    step INTEGER NOT NULL,
    since TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (run, code, who, step),
    FOREIGN KEY(run) REFERENCES runs (run)
);

ALTER TABLE runs DROP CONSTRAINT state_known;

ALTER TABLE runs ADD CONSTRAINT state_known
    CHECK (state IN ('declared', 'running', 'paused', 'draining', 'finished', 'failed', 'purging'));
