-- +goose Up
-- Where a rule wants several people, who has said yes to what so far.
ALTER TABLE approvals.requests ADD COLUMN votes json;
ALTER TABLE approvals.decisions
    DROP CONSTRAINT decisions_outcome_check,
    ADD CONSTRAINT decisions_outcome_check CHECK (outcome IN (
        'decided', 'repeated', 'lost', 'expired', 'withdrawn', 'mismatch', 'wrong_kind', 'unfit', 'not_allowed', 'no_comment', 'counted'));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals.audit_decision() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    SELECT run_id, digest, asked_digest INTO r FROM approvals.requests WHERE approval_id = NEW.approval_id;
    PERFORM approvals.audit_append(NEW.namespace,
        CASE WHEN NEW.outcome = 'counted' THEN 'counted' WHEN NEW.outcome <> 'decided' THEN 'attempted' WHEN NEW.principal = '' THEN NEW.decision ELSE 'decided' END,
        NEW.approval_id, r.run_id, NEW.principal, NEW.door,
        json_build_object('decision', NEW.decision, 'outcome', NEW.outcome, 'digest', r.digest, 'asked_digest', r.asked_digest,
            'comment', NEW.comment, 'result_sha256', encode(sha256(convert_to(NEW.result::text, 'UTF8')), 'hex'), 'at', NEW.at)::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd
