-- +goose Up
-- When the channel of a request that waits is told again.
ALTER TABLE approvals.requests
    ADD COLUMN remind_at timestamptz,                     -- the next time; null: never again
    ADD COLUMN remind_gaps bigint[] NOT NULL DEFAULT '{}', -- milliseconds: up to remind_at, then from each to the next
    ADD COLUMN reminders integer NOT NULL DEFAULT 0;      -- how many there were
CREATE INDEX requests_remind ON approvals.requests (remind_at) WHERE state = 'pending' AND remind_at IS NOT NULL;

-- +goose Down
DROP INDEX approvals.requests_remind;
ALTER TABLE approvals.requests DROP COLUMN reminders, DROP COLUMN remind_gaps, DROP COLUMN remind_at;
