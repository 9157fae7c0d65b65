-- +goose Up
-- A request that waits on when its time is over.
ALTER TABLE approvals.requests
    ADD COLUMN keeps boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT decided_in_time,
    ADD CONSTRAINT decided_in_time CHECK (
        state IN ('pending', 'expired', 'withdrawn') OR decided_at < expires_at OR keeps),
    DROP CONSTRAINT deferred_before_expiry,
    ADD CONSTRAINT deferred_before_expiry CHECK (deferred_until < expires_at OR keeps);
-- What is overdue is not in the way of what is due.
CREATE INDEX requests_lapse ON approvals.requests (expires_at) WHERE state = 'pending' AND NOT keeps;

-- +goose Down
DROP INDEX approvals.requests_lapse;
ALTER TABLE approvals.requests
    DROP CONSTRAINT deferred_before_expiry, DROP CONSTRAINT decided_in_time,
    DROP COLUMN keeps,
    ADD CONSTRAINT deferred_before_expiry CHECK (deferred_until < expires_at) NOT VALID,
    ADD CONSTRAINT decided_in_time CHECK (
        state IN ('pending', 'expired', 'withdrawn') OR decided_at < expires_at) NOT VALID;
