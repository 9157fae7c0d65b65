-- +goose Up

-- Runs whose loop is a program of the user: Holdfast keeps their state and never
-- runs them, so no runner knows them.
CREATE TABLE console.programs (
    run_id          text        PRIMARY KEY,
    namespace       text        NOT NULL,
    name            text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    status          text        NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    input           json        NOT NULL,
    labels          jsonb       NOT NULL,
    output          json,
    error           json,
    principal       text        NOT NULL,
    request_digest  text        NOT NULL, -- of name, input and labels: one key is one request
    outcome_digest  text,                 -- of status, output and error: the same end again is no error
    idempotency_key text,
    version         bigint      NOT NULL DEFAULT 0, -- of the newest checkpoint
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at        timestamptz,
    UNIQUE (namespace, idempotency_key),
    CHECK ((status = 'running') = (ended_at IS NULL))
);
CREATE INDEX programs_newest ON console.programs (namespace, run_id);
CREATE INDEX programs_labels ON console.programs USING gin (labels jsonb_path_ops);

-- What a program saved; the rows are the run's journal, the states of old ones
-- are dropped. json, not jsonb: digits stay.
CREATE TABLE console.checkpoints (
    run_id   text        NOT NULL REFERENCES console.programs ON DELETE CASCADE,
    version  bigint      NOT NULL CHECK (version > 0),
    state    json,
    save_key text,                 -- a repeat of the same save is the same save
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, version)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON console.programs, console.checkpoints TO holdfast_console;

-- +goose Down
DROP TABLE console.checkpoints;
DROP TABLE console.programs;
