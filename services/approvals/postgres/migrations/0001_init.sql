-- +goose Up
CREATE SCHEMA approvals;

-- One row per question. A withdrawal that arrives before its ask leaves a row
-- with little more than an id (asked_at is null), so that the primary key alone
-- decides between the two, without a lock.
CREATE TABLE approvals.requests (
    approval_id      text PRIMARY KEY,
    namespace        text NOT NULL,
    run_id           text NOT NULL,
    kind             text CHECK (kind IN ('action', 'doubt')),
    call_id          text,
    agent            text,
    tool             text,
    tool_digest      text,
    args             json, -- never jsonb: digits and bytes are kept
    digest           text,
    epoch            bigint NOT NULL DEFAULT 0,
    key              text NOT NULL DEFAULT '',
    summary          text NOT NULL DEFAULT '',
    labels           jsonb NOT NULL DEFAULT '{}',
    ask_cause        text,
    asked_at         timestamptz,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz,
    valid_for        interval,

    state            text NOT NULL DEFAULT 'pending',
    decided_by       text NOT NULL DEFAULT '',
    door             text NOT NULL DEFAULT '',
    comment          text NOT NULL DEFAULT '' CHECK (char_length(comment) <= 4000),
    result           json,
    decided_at       timestamptz,
    valid_until      timestamptz,
    withdraw_reason  text NOT NULL DEFAULT '',
    unused_at        timestamptz,
    unused_reason    text NOT NULL DEFAULT '',

    announced_at     timestamptz,
    announce_count   integer NOT NULL DEFAULT 0,
    next_announce_at timestamptz,
    landed_at        timestamptz,

    CONSTRAINT state_answers_kind CHECK (
        state IN ('pending', 'expired', 'withdrawn')
        OR (kind = 'action' AND state IN ('approved', 'rejected'))
        OR (kind = 'doubt' AND state IN ('happened', 'not_happened', 'give_up'))),
    CONSTRAINT ended_has_time CHECK ((state = 'pending') = (decided_at IS NULL)),
    CONSTRAINT people_have_names CHECK (
        (state IN ('pending', 'expired', 'withdrawn')) = (decided_by = '')),
    -- The same instant a yes is given it must still be possible: the deciding
    -- write compares both under one reading of the clock.
    CONSTRAINT decided_in_time CHECK (
        state IN ('pending', 'expired', 'withdrawn') OR decided_at < expires_at),
    CONSTRAINT asked_is_complete CHECK (
        (asked_at IS NULL AND state = 'withdrawn')
        OR (asked_at IS NOT NULL AND kind IS NOT NULL AND call_id IS NOT NULL AND agent IS NOT NULL
            AND tool IS NOT NULL AND tool_digest IS NOT NULL AND args IS NOT NULL AND digest IS NOT NULL
            AND ask_cause IS NOT NULL AND expires_at IS NOT NULL AND valid_for IS NOT NULL))
);

-- The inbox of a namespace: pending first of all, newest first, with a cursor.
CREATE INDEX requests_by_state ON approvals.requests (namespace, state, created_at, approval_id) WHERE asked_at IS NOT NULL;
CREATE INDEX requests_by_time ON approvals.requests (namespace, created_at, approval_id) WHERE asked_at IS NOT NULL;
CREATE INDEX requests_by_run ON approvals.requests (run_id);
-- The expiry sweep reads what falls due next.
CREATE INDEX requests_due ON approvals.requests (expires_at) WHERE state = 'pending';
-- The relay reads what is owed to the runner. A withdrawal is not: who withdrew
-- knows, and who asks again is answered directly.
CREATE INDEX requests_owed ON approvals.requests (next_announce_at) WHERE next_announce_at IS NOT NULL;

-- Every attempt to decide, also those that took no effect. Append-only.
CREATE TABLE approvals.decisions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    approval_id text NOT NULL REFERENCES approvals.requests (approval_id),
    namespace   text NOT NULL,
    at          timestamptz NOT NULL,
    principal   text NOT NULL, -- empty for what the clock or the run ended
    door        text NOT NULL,
    decision    text NOT NULL,
    comment     text NOT NULL,
    result      json,
    outcome     text NOT NULL CHECK (outcome IN ('decided', 'repeated', 'lost', 'expired', 'withdrawn', 'mismatch', 'wrong_kind'))
);
CREATE INDEX decisions_by_approval ON approvals.decisions (approval_id, id);
-- One attempt, the clock or the run ends a request; the second is a bug.
CREATE UNIQUE INDEX decisions_one_end ON approvals.decisions (approval_id) WHERE outcome = 'decided';

-- Messages that can never be handled.
CREATE TABLE approvals.rejected (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    stream     text NOT NULL,
    stream_seq bigint NOT NULL,
    subject    text NOT NULL,
    event_id   text NOT NULL,
    type       text NOT NULL,
    namespace  text NOT NULL,
    code       text NOT NULL,
    error      text NOT NULL,
    data       bytea NOT NULL -- as it came, it may be anything
);

CREATE VIEW approvals.v_requests AS
SELECT approval_id, namespace, kind, run_id, call_id, agent, tool, tool_digest, args, digest, epoch, key,
       summary, labels, state, CASE WHEN state <> 'pending' THEN state END AS decision,
       decided_by, comment, result, created_at, expires_at, decided_at, valid_until, announced_at, landed_at,
       door, withdraw_reason, unused_at, unused_reason, announce_count
FROM approvals.requests
WHERE asked_at IS NOT NULL;

CREATE VIEW approvals.v_decisions AS
SELECT id, approval_id, namespace, at, principal, door, decision, comment, result, outcome
FROM approvals.decisions;

GRANT USAGE ON SCHEMA approvals TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT ON approvals.v_requests, approvals.v_decisions
    TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, UPDATE ON approvals.requests TO holdfast_approvals;
GRANT SELECT, INSERT ON approvals.decisions TO holdfast_approvals; -- append-only
GRANT SELECT, INSERT, DELETE ON approvals.rejected TO holdfast_approvals;

-- +goose Down
DROP SCHEMA approvals CASCADE;
