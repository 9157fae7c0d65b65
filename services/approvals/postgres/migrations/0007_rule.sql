-- +goose Up
-- Who may decide, as it was asked, and who started the run.
ALTER TABLE approvals.requests
    ADD COLUMN rule json,
    ADD COLUMN policy text NOT NULL DEFAULT '', -- what the digest covers, when it is more than the tool's own
    ADD COLUMN requester text NOT NULL DEFAULT '';
ALTER TABLE approvals.decisions
    DROP CONSTRAINT decisions_outcome_check,
    ADD CONSTRAINT decisions_outcome_check CHECK (outcome IN (
        'decided', 'repeated', 'lost', 'expired', 'withdrawn', 'mismatch', 'wrong_kind', 'unfit', 'not_allowed'));

CREATE OR REPLACE VIEW approvals.v_requests AS
SELECT approval_id, namespace, kind, run_id, call_id, agent, tool, tool_digest, args, digest, epoch, key,
       summary, labels, state, CASE WHEN state <> 'pending' THEN state END AS decision,
       decided_by, comment, result, created_at, expires_at, decided_at, valid_until, announced_at, landed_at,
       door, withdraw_reason, unused_at, unused_reason, announce_count, question, channel, rule, requester
FROM approvals.requests
WHERE asked_at IS NOT NULL;
