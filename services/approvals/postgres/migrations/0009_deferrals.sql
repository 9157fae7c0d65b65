-- +goose Up
-- A request that somebody put off waits on, out of the inbox, until its time.
ALTER TABLE approvals.requests
    ADD COLUMN deferred_until timestamptz,
    ADD COLUMN deferred_at timestamptz,
    ADD COLUMN deferred_by text NOT NULL DEFAULT '', -- who put it off, or showed it again, last
    ADD COLUMN deferrals integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT deferred_before_expiry CHECK (deferred_until < expires_at),
    ADD CONSTRAINT deferred_by_somebody CHECK ((deferred_at IS NULL) = (deferred_by = ''));
CREATE VIEW approvals.v_deferred AS
SELECT approval_id, namespace, deferred_until, deferred_at, deferred_by FROM approvals.requests
WHERE state = 'pending' AND deferred_until > (SELECT clock_timestamp());
GRANT SELECT ON approvals.v_deferred TO holdfast_approvals, holdfast_console;

-- +goose Down
DROP VIEW approvals.v_deferred;
ALTER TABLE approvals.requests
    DROP CONSTRAINT deferred_by_somebody, DROP CONSTRAINT deferred_before_expiry,
    DROP COLUMN deferrals, DROP COLUMN deferred_by, DROP COLUMN deferred_at, DROP COLUMN deferred_until;
