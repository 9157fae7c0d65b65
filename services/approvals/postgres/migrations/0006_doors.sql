-- +goose Up
-- Requests that people are told of in a channel, and may decide there.
ALTER TABLE approvals.requests ADD COLUMN channel text NOT NULL DEFAULT '';

ALTER TABLE approvals.notices
    ADD COLUMN approval_id text NOT NULL DEFAULT '', -- with the reason 'approval'
    ADD COLUMN person text NOT NULL DEFAULT '',      -- to whom alone it goes; empty: to the channel
    ADD COLUMN receipt text NOT NULL DEFAULT '',     -- what the channel needs to change the message later
    ADD COLUMN next_update_at timestamptz,           -- when the message is to be looked at again: its request may have ended
    ADD COLUMN updates integer NOT NULL DEFAULT 0,
    DROP CONSTRAINT notices_state_check,
    ADD CONSTRAINT notices_state_check CHECK (state IN ('due', 'sending', 'delivered', 'failed', 'unknown', 'gone'));
CREATE INDEX notices_update ON approvals.notices (next_update_at) WHERE next_update_at IS NOT NULL;

-- One address for each message to a person: who knows it may decide this request in
-- that person's name. Only the hash is kept.
CREATE TABLE approvals.links (
    token_sha256 bytea PRIMARY KEY,
    namespace    text NOT NULL,
    approval_id  text NOT NULL REFERENCES approvals.requests (approval_id),
    channel      text NOT NULL,
    person       text NOT NULL CHECK (person <> ''),
    purpose      text NOT NULL CHECK (purpose = 'decide'),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL
);
CREATE INDEX links_by_approval ON approvals.links (approval_id);
GRANT SELECT, INSERT ON approvals.links TO holdfast_approvals;

CREATE OR REPLACE VIEW approvals.v_requests AS
SELECT approval_id, namespace, kind, run_id, call_id, agent, tool, tool_digest, args, digest, epoch, key,
       summary, labels, state, CASE WHEN state <> 'pending' THEN state END AS decision,
       decided_by, comment, result, created_at, expires_at, decided_at, valid_until, announced_at, landed_at,
       door, withdraw_reason, unused_at, unused_reason, announce_count, question, channel
FROM approvals.requests
WHERE asked_at IS NOT NULL;
CREATE OR REPLACE VIEW approvals.v_notices AS
SELECT notice_id, namespace, channel, reason, run_id, state, attempts, created_at, next_at, delivered_at, problem, approval_id, person
FROM approvals.notices;
