-- +goose Up
-- Questions: a person's answer is the result of the call that asks.
ALTER TABLE approvals.requests ADD COLUMN question json; -- never jsonb: digits and bytes are kept
ALTER TABLE approvals.requests
    DROP CONSTRAINT requests_kind_check,
    DROP CONSTRAINT state_answers_kind,
    ADD CONSTRAINT requests_kind_check CHECK (kind IN ('action', 'doubt', 'question')),
    ADD CONSTRAINT state_answers_kind CHECK (
        state IN ('pending', 'expired', 'withdrawn')
        OR (kind = 'action' AND state IN ('approved', 'rejected'))
        OR (kind = 'doubt' AND state IN ('happened', 'not_happened', 'give_up'))
        OR (kind = 'question' AND state = 'answered')),
    ADD CONSTRAINT questions_ask CHECK (
        asked_at IS NULL OR (kind = 'question') = (question IS NOT NULL)),
    ADD CONSTRAINT answers_have_a_result CHECK (state <> 'answered' OR result IS NOT NULL);
ALTER TABLE approvals.decisions
    DROP CONSTRAINT decisions_outcome_check,
    ADD CONSTRAINT decisions_outcome_check CHECK (outcome IN (
        'decided', 'repeated', 'lost', 'expired', 'withdrawn', 'mismatch', 'wrong_kind', 'unfit'));

CREATE OR REPLACE VIEW approvals.v_requests AS
SELECT approval_id, namespace, kind, run_id, call_id, agent, tool, tool_digest, args, digest, epoch, key,
       summary, labels, state, CASE WHEN state <> 'pending' THEN state END AS decision,
       decided_by, comment, result, created_at, expires_at, decided_at, valid_until, announced_at, landed_at,
       door, withdraw_reason, unused_at, unused_reason, announce_count, question
FROM approvals.requests
WHERE asked_at IS NOT NULL;

-- +goose Down
DROP VIEW approvals.v_requests;
CREATE VIEW approvals.v_requests AS
SELECT approval_id, namespace, kind, run_id, call_id, agent, tool, tool_digest, args, digest, epoch, key,
       summary, labels, state, CASE WHEN state <> 'pending' THEN state END AS decision,
       decided_by, comment, result, created_at, expires_at, decided_at, valid_until, announced_at, landed_at,
       door, withdraw_reason, unused_at, unused_reason, announce_count
FROM approvals.requests
WHERE asked_at IS NOT NULL;
GRANT SELECT ON approvals.v_requests
    TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
DELETE FROM approvals.decisions d USING approvals.requests r
    WHERE d.approval_id = r.approval_id AND (r.kind = 'question' OR d.outcome = 'unfit');
DELETE FROM approvals.requests WHERE kind = 'question';
ALTER TABLE approvals.decisions
    DROP CONSTRAINT decisions_outcome_check,
    ADD CONSTRAINT decisions_outcome_check CHECK (outcome IN (
        'decided', 'repeated', 'lost', 'expired', 'withdrawn', 'mismatch', 'wrong_kind'));
ALTER TABLE approvals.requests
    DROP CONSTRAINT requests_kind_check,
    DROP CONSTRAINT state_answers_kind,
    DROP CONSTRAINT questions_ask,
    DROP CONSTRAINT answers_have_a_result,
    ADD CONSTRAINT requests_kind_check CHECK (kind IN ('action', 'doubt')),
    ADD CONSTRAINT state_answers_kind CHECK (
        state IN ('pending', 'expired', 'withdrawn')
        OR (kind = 'action' AND state IN ('approved', 'rejected'))
        OR (kind = 'doubt' AND state IN ('happened', 'not_happened', 'give_up')));
ALTER TABLE approvals.requests DROP COLUMN question;
