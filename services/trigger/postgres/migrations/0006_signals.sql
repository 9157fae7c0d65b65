-- +goose Up

-- One row per signal from outside, until one run has taken it. State and place
-- are decided here, over all replicas; what a run did with it is read from
-- runner.v_signals.
CREATE TABLE trigger.signals (
    signal_id        uuid        PRIMARY KEY,
    namespace        text        NOT NULL,
    name             text        NOT NULL,
    key              text        NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    -- json and not jsonb: it keeps digits, key order and repeated spaces as they came.
    data             json        NOT NULL,
    source_kind      text        NOT NULL CHECK (source_kind IN ('webhook', 'api')),
    source_name      text        NOT NULL,
    -- What makes a repeat a repeat. NULL: each request is its own.
    dedupe_key       text        CHECK (length(dedupe_key) BETWEEN 1 AND 1000),
    request_digest   text        NOT NULL,
    principal        text        NOT NULL DEFAULT '',
    traceparent      text        NOT NULL DEFAULT '',
    -- Of a paused webhook: kept, and given to no run.
    held             boolean     NOT NULL DEFAULT false,
    state            text        NOT NULL DEFAULT 'kept' CHECK (state IN ('kept', 'sent', 'taken', 'expired')),
    -- The wait that it was sent to: runner.v_waits. Empty again when it came late.
    run_id           text,
    item             text,
    -- Waits that it was sent to, part of the id that the run records; and how many
    -- of them had ended.
    tries            int         NOT NULL DEFAULT 0,
    late             int         NOT NULL DEFAULT 0,
    received_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at       timestamptz NOT NULL,
    taken_at         timestamptz,
    announced_at     timestamptz,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    announce_count   int         NOT NULL DEFAULT 0,
    UNIQUE (namespace, source_kind, source_name, dedupe_key),
    CHECK ((state IN ('sent', 'taken')) = (run_id IS NOT NULL AND item IS NOT NULL))
);
-- What the waits are matched with, and what expires.
CREATE INDEX signals_kept ON trigger.signals (namespace, name, key, signal_id) WHERE state = 'kept' AND NOT held;
CREATE INDEX signals_expire ON trigger.signals (expires_at) WHERE state = 'kept' AND NOT held;
-- One signal at a time is on its way to a wait.
CREATE UNIQUE INDEX signals_sent ON trigger.signals (run_id, item) WHERE state = 'sent';
CREATE INDEX signals_announce ON trigger.signals (next_announce_at) WHERE state = 'sent';
-- What paused webhooks hold back.
CREATE INDEX signals_held ON trigger.signals (namespace, source_name) WHERE held;
-- Lists, newest first.
CREATE INDEX signals_list ON trigger.signals (namespace, signal_id DESC);

GRANT SELECT, INSERT, UPDATE ON trigger.signals TO holdfast_trigger;

-- The log knows a new outcome.
ALTER TABLE trigger.attempts
    DROP CONSTRAINT attempts_outcome_check,
    ADD CONSTRAINT attempts_outcome_check CHECK (outcome IN ('accepted', 'duplicate', 'filtered', 'held', 'rejected', 'signalled'));

-- +goose Down
ALTER TABLE trigger.attempts
    DROP CONSTRAINT attempts_outcome_check,
    ADD CONSTRAINT attempts_outcome_check CHECK (outcome IN ('accepted', 'duplicate', 'filtered', 'held', 'rejected')) NOT VALID;
DROP TABLE trigger.signals;
