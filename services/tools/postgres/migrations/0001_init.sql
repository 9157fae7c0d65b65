-- +goose Up

-- The side-effect ledger. Results, arguments and errors are json, never jsonb:
-- digits and bytes stay as they came.

CREATE SCHEMA tools;
GRANT USAGE ON SCHEMA tools TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;

-- Heartbeats. A worker's name is unique per process start.
CREATE TABLE tools.workers (
    name        text        PRIMARY KEY,
    beat        timestamptz NOT NULL,
    fresh_since timestamptz NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    pid         int,
    detail      text
);

-- One row per (namespace, tool, key): what the outside world was asked to do.
CREATE TABLE tools.effects (
    effect_id       text        NOT NULL, -- a hash of the key
    namespace       text        NOT NULL,
    tool            text        NOT NULL,
    key             text        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('intent', 'succeeded', 'failed', 'unknown')),
    epoch           bigint      NOT NULL CHECK (epoch > 0),
    call_id         text        NOT NULL, -- the call that opened it
    run_id          text        NOT NULL,
    args            json        NOT NULL,
    args_digest     text        NOT NULL,
    -- Who may act now. An intent without an attempt waits for next_attempt_at.
    attempt_id      text,
    worker          text,
    lease_until     timestamptz,
    attempts        int         NOT NULL DEFAULT 0,
    doubted         boolean     NOT NULL DEFAULT false, -- an earlier attempt may have happened
    next_attempt_at timestamptz,
    wake_at         timestamptz, -- when a sweep sends the call again
    in_doubt        text        CHECK (in_doubt IN ('ask', 'fail')),
    result          json,
    error           json,
    settled_by      text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    acted_at        timestamptz,
    PRIMARY KEY (namespace, tool, key),
    CHECK (state <> 'intent' OR (attempt_id IS NULL) = (worker IS NULL)),
    CHECK (state <> 'intent' OR attempt_id IS NOT NULL OR next_attempt_at IS NOT NULL),
    CHECK (state <> 'unknown' OR in_doubt IS NOT NULL)
);
-- Not unique: the hash follows from the primary key, and a second unique index
-- would turn two concurrent inserts of one key into an error.
CREATE INDEX effects_id ON tools.effects (effect_id);
-- What is listed first: doubts, then what is open.
CREATE INDEX effects_open ON tools.effects (state, updated_at) WHERE state IN ('intent', 'unknown');
CREATE INDEX effects_newest ON tools.effects (namespace, created_at, effect_id);
CREATE INDEX effects_run ON tools.effects (run_id);
CREATE INDEX effects_wake ON tools.effects (wake_at) WHERE wake_at IS NOT NULL;

-- What each attempt saw, and outcomes that came too late to count.
CREATE TABLE tools.receipts (
    effect_id  text        NOT NULL,
    attempt_id text        NOT NULL,
    epoch      bigint      NOT NULL,
    worker     text        NOT NULL,
    late       boolean     NOT NULL,
    body       json        NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (effect_id, attempt_id)
);

-- One row per tool call of a run.
CREATE TABLE tools.calls (
    call_id         text        NOT NULL PRIMARY KEY,
    run_id          text        NOT NULL,
    namespace       text        NOT NULL,
    tool            text        NOT NULL,
    tool_digest     text        NOT NULL,
    pool            text        NOT NULL,
    args            json        NOT NULL,
    args_digest     text        NOT NULL,
    minted_key      text        NOT NULL, -- as the runner minted it
    key             text        NOT NULL, -- in force: the business key when the tool has one
    approval        json,
    traceparent     text        NOT NULL DEFAULT '',
    effect_id       text,                 -- null for reads and for calls that never began
    acting          boolean     NOT NULL DEFAULT false, -- an act of this call has begun and is not known to have failed
    status          text        NOT NULL CHECK (status IN ('open', 'succeeded', 'failed', 'unknown', 'mismatch', 'expired', 'revoked')),
    epoch           bigint      NOT NULL DEFAULT 0, -- part of the answer's id
    result          json,
    error           json,
    in_doubt        text,
    replayed        boolean     NOT NULL DEFAULT false,
    settled_by      text,
    answered_by     text,
    -- Reads are claimed here; they leave no effect.
    claim_epoch     bigint      NOT NULL DEFAULT 0,
    attempt_id      text,
    worker          text,
    lease_until     timestamptz,
    attempts        int         NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    wake_at         timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- An outcome's commit answers every attached call.
CREATE INDEX calls_effect ON tools.calls (effect_id) WHERE effect_id IS NOT NULL;
CREATE INDEX calls_run ON tools.calls (run_id);
CREATE INDEX calls_wake ON tools.calls (wake_at) WHERE wake_at IS NOT NULL;

-- Control messages and operators' verdicts that were taken, once each.
CREATE TABLE tools.controls (
    id        text        PRIMARY KEY,
    call_id   text        NOT NULL,
    run_id    text        NOT NULL,
    action    text        NOT NULL CHECK (action IN ('settle', 'revoke')),
    verdict   text        NOT NULL DEFAULT '',
    principal text        NOT NULL DEFAULT '',
    reason    text        NOT NULL DEFAULT '',
    applied   boolean     NOT NULL DEFAULT false,
    taken_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Messages that a door's commit owes. A row is finished when its receiver has
-- it (landed_at), not when the bus took it (announced_at).
CREATE TABLE tools.announcements (
    n                bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               text        NOT NULL, -- ce-id
    run_id           text        NOT NULL,
    call_id          text        NOT NULL,
    message          json        NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    announced_at     timestamptz,
    announce_count   int         NOT NULL DEFAULT 0,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    landed_at        timestamptz
);
CREATE INDEX announcements_due ON tools.announcements (next_announce_at) WHERE landed_at IS NULL;

-- Messages that no retry can cure.
CREATE TABLE tools.rejected (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text        NOT NULL,
    stream_seq  bigint      NOT NULL,
    message_id  text        NOT NULL,
    subject     text        NOT NULL,
    code        text        NOT NULL,
    reason      text        NOT NULL,
    body        bytea       NOT NULL,
    rejected_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE VIEW tools.v_effects AS
SELECT e.effect_id, e.namespace, e.tool, e.key, e.state, e.epoch, e.run_id, e.call_id, e.args, e.result, e.error,
       e.in_doubt, e.worker, e.lease_until, e.created_at, e.updated_at, e.acted_at,
       (SELECT coalesce(json_agg(json_build_object('attempt_id', r.attempt_id, 'epoch', r.epoch, 'worker', r.worker,
                                                   'late', r.late, 'at', r.at, 'body', r.body) ORDER BY r.at, r.attempt_id), '[]'::json)
          FROM tools.receipts r WHERE r.effect_id = e.effect_id) AS receipts,
       e.attempts, e.next_attempt_at, e.doubted, e.settled_by
  FROM tools.effects e;

CREATE VIEW tools.v_calls AS
SELECT call_id, run_id, namespace, tool, key, status, result, error, created_at, updated_at,
       pool, epoch, replayed, settled_by, effect_id
  FROM tools.calls;

CREATE VIEW tools.v_landed AS SELECT id FROM tools.controls;

CREATE VIEW tools.v_workers AS SELECT name, beat, fresh_since, started_at, pid FROM tools.workers;

GRANT SELECT ON tools.v_effects, tools.v_calls, tools.v_landed, tools.v_workers
   TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON tools.workers, tools.effects, tools.receipts, tools.calls, tools.controls,
      tools.announcements, tools.rejected TO holdfast_tools;

-- +goose Down
DROP SCHEMA tools CASCADE;
