-- +goose Up

-- Addresses at which other systems post the result of a call that they have
-- accepted: one for each attempt, committed with its intent. Of the token in
-- the address only a hash is kept.
CREATE TABLE tools.replies (
    token_hash  text        NOT NULL PRIMARY KEY,
    effect_id   text        NOT NULL,
    epoch       bigint      NOT NULL,
    attempt_id  text        NOT NULL,
    call_id     text        NOT NULL, -- the call that acted
    tool_digest text        NOT NULL,
    shared      boolean     NOT NULL, -- the other side honours the key: attempts of one begin are one act
    doubted     boolean     NOT NULL, -- an attempt before this one may have happened
    live        boolean     NOT NULL DEFAULT true, -- no other act has begun since
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What was posted, once.
    taken_at    timestamptz,
    digest      text,
    applied     boolean     NOT NULL DEFAULT false, -- it settled the effect; else it is kept as a late receipt
    CHECK ((taken_at IS NULL) = (digest IS NULL)),
    CHECK (NOT applied OR taken_at IS NOT NULL)
);
CREATE INDEX replies_effect ON tools.replies (effect_id);

-- Until when an intent waits for what is posted. Its attempt stays named and no
-- worker has it.
ALTER TABLE tools.effects ADD COLUMN reply_until timestamptz;

CREATE OR REPLACE VIEW tools.v_effects AS
SELECT e.effect_id, e.namespace, e.tool, e.key, e.state, e.epoch, e.run_id, e.call_id, e.args, e.result, e.error,
       e.in_doubt, e.worker, e.lease_until, e.created_at, e.updated_at, e.acted_at,
       (SELECT coalesce(json_agg(json_build_object('attempt_id', r.attempt_id, 'epoch', r.epoch, 'worker', r.worker,
                                                   'late', r.late, 'at', r.at, 'body', r.body) ORDER BY r.at, r.attempt_id), '[]'::json)
          FROM tools.receipts r WHERE r.effect_id = e.effect_id) AS receipts,
       e.attempts, e.next_attempt_at, e.doubted, e.settled_by,
       CASE WHEN e.state = 'intent' AND e.attempt_id IS NOT NULL THEN e.reply_until END AS reply_until
  FROM tools.effects e;

-- Calls that wait for a callback.
CREATE VIEW tools.v_awaited AS
SELECT c.call_id, c.run_id, c.namespace, c.tool, e.effect_id, e.reply_until
  FROM tools.effects e
  JOIN tools.calls c ON c.effect_id = e.effect_id AND c.status = 'open'
 WHERE e.state = 'intent' AND e.attempt_id IS NOT NULL AND e.reply_until IS NOT NULL;
GRANT SELECT ON tools.v_awaited TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON tools.replies TO holdfast_tools;

-- The pools that each worker works for; null of a release that does not say.
CREATE OR REPLACE VIEW tools.v_workers AS
SELECT name, beat, fresh_since, started_at, pid, string_to_array(detail, ',') AS pools FROM tools.workers;

-- +goose Down
DROP VIEW tools.v_workers;
DROP VIEW tools.v_awaited;
DROP VIEW tools.v_effects;
ALTER TABLE tools.effects DROP COLUMN reply_until;
DROP TABLE tools.replies;
