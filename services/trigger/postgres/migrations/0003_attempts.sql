-- +goose Up

-- The delivery log: one row per request that reached a known webhook, whatever
-- became of it. One that made a delivery is written with it and has its id.
CREATE TABLE trigger.attempts (
    attempt_id   uuid        PRIMARY KEY,
    namespace    text        NOT NULL,
    webhook      text        NOT NULL,
    -- Version of the webhook; empty for a row that stands for many requests.
    digest       text        NOT NULL,
    outcome      text        NOT NULL CHECK (outcome IN ('accepted', 'duplicate', 'filtered', 'held', 'rejected')),
    reason       text        NOT NULL DEFAULT '',
    detail       text        NOT NULL DEFAULT '',
    -- How many requests the row stands for: those that came too fast share one.
    count        bigint      NOT NULL DEFAULT 1 CHECK (count > 0),
    status       int         NOT NULL,
    received_at  timestamptz NOT NULL,
    took_us      bigint      NOT NULL,
    remote       text        NOT NULL,
    content_type text        NOT NULL,
    -- Redacted before they come here: {"name": ["value"]}.
    headers      jsonb       NOT NULL,
    query        jsonb       NOT NULL,
    body_bytes   bigint      NOT NULL,
    body_digest  text        NOT NULL,
    -- As it came. NULL: the signature was not good, or it is too large.
    body         bytea,
    event_id     text        NOT NULL,
    dedupe_key   text        NOT NULL,
    run_id       text,
    -- No foreign key: the log is swept and deliveries stay.
    delivery_id  uuid,
    replay_of    uuid,
    principal    text        NOT NULL DEFAULT ''
);
-- Lists, newest first; ids are ordered by time.
CREATE INDEX attempts_list ON trigger.attempts (namespace, attempt_id DESC);
CREATE INDEX attempts_of_webhook ON trigger.attempts (namespace, webhook, attempt_id DESC);
-- The sweep.
CREATE INDEX attempts_age ON trigger.attempts (received_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON trigger.attempts TO holdfast_trigger;

-- The read contract. It leaves out the body.
CREATE VIEW trigger.v_requests AS
    SELECT attempt_id::text AS request_id, namespace, webhook, digest, outcome, reason, detail, count, status, received_at, took_us,
           remote, content_type, headers, query, body_bytes, body_digest, body IS NOT NULL AS body_kept, event_id, dedupe_key,
           run_id, delivery_id::text AS delivery_id, replay_of::text AS replay_of, principal
    FROM trigger.attempts;
GRANT SELECT ON trigger.v_requests TO holdfast_trigger, holdfast_console;

-- +goose Down
DROP VIEW trigger.v_requests;
DROP TABLE trigger.attempts;
