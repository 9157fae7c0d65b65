-- +goose Up
-- A decision that says nothing, of a request whose rule wants to know why.
ALTER TABLE approvals.decisions
    DROP CONSTRAINT decisions_outcome_check,
    ADD CONSTRAINT decisions_outcome_check CHECK (outcome IN (
        'decided', 'repeated', 'lost', 'expired', 'withdrawn', 'mismatch', 'wrong_kind', 'unfit', 'not_allowed', 'no_comment'));
