-- +goose Up
-- The audit cannot be emptied, so it holds digests and no data: of a result, of what was
-- asked, and of what the decision is bound to, which a person may have edited.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals.audit_decision() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    SELECT run_id, digest, asked_digest INTO r FROM approvals.requests WHERE approval_id = NEW.approval_id;
    PERFORM approvals.audit_append(NEW.namespace,
        CASE WHEN NEW.outcome <> 'decided' THEN 'attempted' WHEN NEW.principal = '' THEN NEW.decision ELSE 'decided' END,
        NEW.approval_id, r.run_id, NEW.principal, NEW.door,
        json_build_object('decision', NEW.decision, 'outcome', NEW.outcome, 'digest', r.digest, 'asked_digest', r.asked_digest,
            'comment', NEW.comment, 'result_sha256', encode(sha256(convert_to(NEW.result::text, 'UTF8')), 'hex'), 'at', NEW.at)::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals.audit_decision() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    SELECT run_id, digest INTO r FROM approvals.requests WHERE approval_id = NEW.approval_id;
    PERFORM approvals.audit_append(NEW.namespace,
        CASE WHEN NEW.outcome <> 'decided' THEN 'attempted' WHEN NEW.principal = '' THEN NEW.decision ELSE 'decided' END,
        NEW.approval_id, r.run_id, NEW.principal, NEW.door,
        json_build_object('decision', NEW.decision, 'outcome', NEW.outcome, 'digest', r.digest, 'comment', NEW.comment, 'result', NEW.result, 'at', NEW.at)::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd
