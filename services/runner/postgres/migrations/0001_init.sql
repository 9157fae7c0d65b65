-- +goose Up
-- The runner's schema. The journal is the truth; every other table is a
-- projection that the same commit writes, or bookkeeping of workers.
CREATE SCHEMA runner;

-- One row per run: the small current state. seq is the version that guards
-- every commit and equals the seq of the last journal row.
CREATE TABLE runner.runs (
    run_id        text PRIMARY KEY,
    namespace     text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('agent', 'flow')),
    name          text NOT NULL,
    digest        text NOT NULL,
    status        text NOT NULL,
    seq           bigint NOT NULL CHECK (seq > 0),
    waiting       text NOT NULL DEFAULT '',
    input         json NOT NULL,
    output        json,
    error         json,
    labels        jsonb NOT NULL DEFAULT '{}',
    trigger       json NOT NULL,
    principal     text NOT NULL DEFAULT '',
    parent_run_id text,
    parent_item   text,
    paused_for    text NOT NULL DEFAULT '', -- "pool:<name>" while paused for it
    model_calls   bigint NOT NULL DEFAULT 0,
    tool_calls    bigint NOT NULL DEFAULT 0,
    tokens        bigint NOT NULL DEFAULT 0,
    claim_worker  text,
    claim_epoch   bigint NOT NULL DEFAULT 0,
    claim_cause   text,
    claim_at      timestamptz,
    attempts      int NOT NULL DEFAULT 0, -- takeovers since the last progress
    accepted_at   timestamptz NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    cancelled_at  timestamptz
) WITH (fillfactor = 80);
-- Only columns that never change after the insert are indexed: an update of a
-- step stays a heap-only update.
CREATE INDEX runs_list ON runner.runs (namespace, run_id DESC);
CREATE INDEX runs_by_name ON runner.runs (namespace, name, run_id DESC);
CREATE INDEX runs_by_parent ON runner.runs (parent_run_id, run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_paused ON runner.runs (namespace, paused_for) WHERE paused_for <> '';
CREATE INDEX runs_by_label ON runner.runs USING gin (labels jsonb_path_ops);

-- Append-only. data is json, not jsonb: digits, key order and bytes stay.
CREATE TABLE runner.journal (
    run_id  text NOT NULL,
    seq     bigint NOT NULL CHECK (seq > 0),
    kind    text NOT NULL,
    status  text NOT NULL,
    cause   text NOT NULL,
    inbound boolean NOT NULL,
    worker  text NOT NULL,
    at      timestamptz NOT NULL,
    data    json NOT NULL,
    PRIMARY KEY (run_id, seq)
);
-- A start, command, signal, result or decision is recorded once.
CREATE UNIQUE INDEX journal_once ON runner.journal (run_id, cause) WHERE inbound;
CREATE INDEX journal_by_cause ON runner.journal (run_id, cause);

-- What a run waits for: a projection. next_nudge is when the doctor asks again.
CREATE TABLE runner.pending (
    run_id     text NOT NULL,
    namespace  text NOT NULL,
    item       text NOT NULL,
    kind       text NOT NULL,
    detail     text NOT NULL DEFAULT '',
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_nudge timestamptz NOT NULL DEFAULT clock_timestamp() + interval '30 s',
    nudges     int NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, item)
);
CREATE INDEX pending_nudge ON runner.pending (next_nudge);

CREATE TABLE runner.timers (
    run_id   text NOT NULL,
    timer    text NOT NULL,
    due      timestamptz NOT NULL,
    next_try timestamptz NOT NULL,
    tries    int NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, timer)
);
CREATE INDEX timers_due ON runner.timers (next_try);

-- Shared budgets. used is settled, reserved is booked by calls in flight.
CREATE TABLE runner.pools (
    namespace    text NOT NULL,
    pool         text NOT NULL,
    window_start text NOT NULL, -- first local day of the window, or 'all'
    unit         text NOT NULL,
    ceiling      bigint NOT NULL,
    used         bigint NOT NULL DEFAULT 0,
    reserved     bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    PRIMARY KEY (namespace, pool, window_start)
);
CREATE TABLE runner.reservations (
    run_id       text NOT NULL,
    seq          bigint NOT NULL,
    epoch        bigint NOT NULL,
    namespace    text NOT NULL,
    pool         text NOT NULL,
    window_start text NOT NULL,
    amount       bigint NOT NULL,
    PRIMARY KEY (run_id, seq, epoch, pool)
);
-- One row per threshold passed: the key makes an alert happen once.
CREATE TABLE runner.alerts (
    alert_id         text PRIMARY KEY,
    namespace        text NOT NULL,
    pool             text NOT NULL,
    window_start     text NOT NULL,
    percent          int NOT NULL,
    ceiling          bigint NOT NULL,
    used             bigint NOT NULL,
    unit             text NOT NULL,
    at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    announced_at     timestamptz,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    announce_count   int NOT NULL DEFAULT 0,
    UNIQUE (namespace, pool, window_start, percent, ceiling)
);

CREATE TABLE runner.workers (
    name        text PRIMARY KEY,
    beat        timestamptz NOT NULL,
    fresh_since timestamptz NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    pid         int,
    detail      text
);

CREATE TABLE runner.rejected (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject    text NOT NULL,
    cause      text NOT NULL,
    code       text NOT NULL,
    detail     text NOT NULL,
    body       bytea NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE VIEW runner.v_runs AS
SELECT run_id, namespace, kind, name, digest, status, seq, waiting, input, output, error, labels, trigger, principal,
       parent_run_id, parent_item, model_calls, tool_calls, tokens, claim_worker, claim_epoch, claim_at, attempts,
       accepted_at, created_at, updated_at, ended_at
FROM runner.runs;
CREATE VIEW runner.v_events AS
SELECT j.run_id, r.namespace, j.seq, j.kind, j.status, j.at, j.cause, j.worker, j.data
FROM runner.journal j JOIN runner.runs r USING (run_id);
CREATE VIEW runner.v_landed AS SELECT run_id, cause FROM runner.journal WHERE inbound;
CREATE VIEW runner.v_pending AS
SELECT run_id, namespace, item, kind, 'open'::text AS state, since, to_json(detail) AS detail FROM runner.pending;
CREATE VIEW runner.v_workers AS SELECT name, beat, fresh_since, started_at, pid FROM runner.workers;
CREATE VIEW runner.v_pools AS
SELECT p.namespace, p.pool, p.window_start, p.unit, p.ceiling, p.used, p.reserved,
       coalesce((SELECT jsonb_agg(jsonb_build_object('percent', a.percent, 'ceiling', a.ceiling, 'at', a.at) ORDER BY a.at)
                 FROM runner.alerts a WHERE (a.namespace, a.pool, a.window_start) = (p.namespace, p.pool, p.window_start)), '[]') AS alerts
FROM runner.pools p;

GRANT USAGE ON SCHEMA runner TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA runner TO holdfast_runner;
REVOKE UPDATE, DELETE ON runner.journal FROM holdfast_runner; -- append-only, also for us
GRANT SELECT ON runner.v_landed, runner.v_workers TO holdfast_trigger, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT ON runner.v_runs, runner.v_events, runner.v_pending, runner.v_pools TO holdfast_console;
GRANT SELECT ON runner.v_runs TO holdfast_approvals, holdfast_tools;
