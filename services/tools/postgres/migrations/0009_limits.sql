-- +goose Up

-- What bounds how a tool or a host is used, by all workers together. A row is
-- made when its limit is first asked for; whoever asks locks it.
CREATE TABLE tools.limits (
    limit_key  text        PRIMARY KEY, -- tool/<namespace>/<name> or host/<name>
    last_start timestamptz NOT NULL DEFAULT '-infinity'
);

-- Attempts under way, of limits with a concurrency. One whose worker is gone, or
-- whose time is over, counts no more.
CREATE TABLE tools.limit_uses (
    limit_key text        NOT NULL,
    holder    text        NOT NULL,
    worker    text        NOT NULL,
    until     timestamptz NOT NULL,
    PRIMARY KEY (limit_key, holder)
);

-- Calls that wait for their turn, in the order of since.
CREATE TABLE tools.limit_waits (
    call_id   text        PRIMARY KEY,
    run_id    text        NOT NULL,
    namespace text        NOT NULL,
    tool      text        NOT NULL,
    limit_key text        NOT NULL,
    says      text        NOT NULL, -- the limit, for people
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at   timestamptz NOT NULL, -- when its turn may come
    wake_at   timestamptz NOT NULL  -- when a sweep sends the call again
);
CREATE INDEX limit_waits_queue ON tools.limit_waits (limit_key, since, call_id);
CREATE INDEX limit_waits_wake ON tools.limit_waits (wake_at);
CREATE INDEX limit_waits_run ON tools.limit_waits (run_id);

-- Open calls that nobody works on now: they wait for their turn, or for the next
-- attempt.
CREATE VIEW tools.v_delayed AS
SELECT c.call_id, c.run_id, c.namespace, c.tool, w.says AS limited_by, 0 AS attempts, NULL::text AS error, w.since, w.next_at
  FROM tools.limit_waits w
  JOIN tools.calls c ON c.call_id = w.call_id AND c.status = 'open'
UNION ALL
SELECT c.call_id, c.run_id, c.namespace, c.tool, NULL, e.attempts, e.error->>'message', e.updated_at, e.next_attempt_at
  FROM tools.calls c
  JOIN tools.effects e ON e.effect_id = c.effect_id AND e.state = 'intent' AND e.attempt_id IS NULL AND e.held_by IS NULL AND e.next_attempt_at IS NOT NULL
 WHERE c.status = 'open' AND e.error IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tools.limit_waits w WHERE w.call_id = c.call_id)
UNION ALL
SELECT c.call_id, c.run_id, c.namespace, c.tool, NULL, c.attempts, c.error->>'message', c.updated_at, c.next_attempt_at
  FROM tools.calls c
 WHERE c.status = 'open' AND c.attempt_id IS NULL AND c.next_attempt_at IS NOT NULL AND c.error IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM tools.limit_waits w WHERE w.call_id = c.call_id);

GRANT SELECT ON tools.v_delayed TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON tools.limits, tools.limit_uses, tools.limit_waits TO holdfast_tools;

-- +goose Down
DROP VIEW tools.v_delayed;
DROP TABLE tools.limit_waits;
DROP TABLE tools.limit_uses;
DROP TABLE tools.limits;
