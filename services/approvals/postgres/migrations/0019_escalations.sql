-- +goose Up
-- What follows, step by step, while nobody decides.
ALTER TABLE approvals.requests
    ADD COLUMN escalations timestamptz[] NOT NULL DEFAULT '{}', -- when each step of the rule comes
    ADD COLUMN escalated integer NOT NULL DEFAULT 0,            -- how many have come
    ADD COLUMN escalate_at timestamptz;                         -- when the next one does; null: there is none
CREATE INDEX requests_escalate ON approvals.requests (escalate_at) WHERE state = 'pending' AND escalate_at IS NOT NULL;

-- +goose Down
DROP INDEX approvals.requests_escalate;
ALTER TABLE approvals.requests DROP COLUMN escalate_at, DROP COLUMN escalated, DROP COLUMN escalations;
