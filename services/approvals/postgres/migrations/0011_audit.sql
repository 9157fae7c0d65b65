-- +goose Up
-- What happened to every request, append-only and chained: each row has the hash of
-- the row before it. Nobody but audit_append writes it; no role may change it.
CREATE TABLE approvals.audit (
    namespace   text NOT NULL,
    seq         bigint NOT NULL CHECK (seq > 0), -- from 1, without gaps
    at          timestamptz NOT NULL,
    kind        text NOT NULL,
    approval_id text NOT NULL,
    run_id      text NOT NULL,
    actor       text NOT NULL, -- who; empty for what the clock, the run or a worker did
    door        text NOT NULL,
    detail      text NOT NULL, -- JSON as text: its bytes are hashed
    prev        text NOT NULL, -- hash of the row before; empty of the first
    hash        text NOT NULL,
    PRIMARY KEY (namespace, seq)
);
CREATE INDEX audit_by_approval ON approvals.audit (approval_id, kind, actor, door);
CREATE INDEX audit_by_run ON approvals.audit (namespace, run_id, seq);
CREATE INDEX audit_by_time ON approvals.audit (namespace, at);

-- The end of each chain, apart from its rows: without it nobody could tell that the
-- last rows are missing.
CREATE TABLE approvals.audit_heads (
    namespace text PRIMARY KEY,
    seq       bigint NOT NULL,
    hash      text NOT NULL
) WITH (fillfactor = 10);

-- The hash is over the row's values in the order below, each as <bytes>:<value>,
-- (a netstring), times in UTC with six digits. It locks the end of its namespace's
-- chain until the transaction ends, so it is called last. With p_once the same again
-- about a request, by the same person through the same door, adds nothing.
-- +goose StatementBegin
CREATE FUNCTION approvals.audit_append(p_namespace text, p_kind text, p_approval text, p_run text, p_actor text, p_door text, p_detail text, p_once boolean DEFAULT false)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    h record;
    v_at timestamptz;
    v_hash text;
    v_text text := '';
    v text;
BEGIN
    FOR i IN 1..2 LOOP -- before the lock, and while it is held
        IF p_once AND EXISTS (SELECT 1 FROM approvals.audit a WHERE a.approval_id = p_approval AND a.kind = p_kind
                AND a.actor = p_actor AND a.door = p_door AND a.namespace = p_namespace) THEN
            RETURN 0;
        END IF;
        IF i = 1 THEN
            SELECT a.seq, a.hash INTO h FROM approvals.audit_heads a WHERE a.namespace = p_namespace FOR UPDATE;
            IF NOT FOUND THEN
                INSERT INTO approvals.audit_heads VALUES (p_namespace, 0, '') ON CONFLICT DO NOTHING;
                SELECT a.seq, a.hash INTO h FROM approvals.audit_heads a WHERE a.namespace = p_namespace FOR UPDATE;
            END IF;
        END IF;
    END LOOP;
    v_at := clock_timestamp();
    FOREACH v IN ARRAY ARRAY[h.hash, p_namespace, (h.seq + 1)::text, to_char(v_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            p_kind, p_approval, p_run, p_actor, p_door, p_detail] LOOP
        v_text := v_text || octet_length(v) || ':' || v || ',';
    END LOOP;
    v_hash := encode(sha256(convert_to(v_text, 'UTF8')), 'hex');
    INSERT INTO approvals.audit VALUES (p_namespace, h.seq + 1, v_at, p_kind, p_approval, p_run, p_actor, p_door, p_detail, h.hash, v_hash);
    UPDATE approvals.audit_heads a SET seq = h.seq + 1, hash = v_hash WHERE a.namespace = p_namespace;
    RETURN h.seq + 1;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION approvals.audit_append(text, text, text, text, text, text, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION approvals.audit_append(text, text, text, text, text, text, text, boolean) TO holdfast_approvals;

-- What the tables say is audited by themselves, when their transaction commits: no
-- statement can forget it, and the end of the chain is locked for no longer.
-- +goose StatementBegin
CREATE FUNCTION approvals.audit_request() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_ARGV[0] = 'unused' THEN
        PERFORM approvals.audit_append(NEW.namespace, 'unused', NEW.approval_id, NEW.run_id, '', 'run', json_build_object('reason', NEW.unused_reason)::text);
    ELSE
        PERFORM approvals.audit_append(NEW.namespace, 'requested', NEW.approval_id, NEW.run_id, '', 'run', json_build_object(
            'kind', NEW.kind, 'agent', NEW.agent, 'tool', NEW.tool, 'tool_digest', NEW.tool_digest, 'digest', NEW.digest, 'expires_at', NEW.expires_at)::text);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION approvals.audit_decision() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
-- +goose StatementBegin
CREATE FUNCTION approvals.audit_notice() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM approvals.audit_append(NEW.namespace, CASE NEW.reason WHEN 'approval' THEN 'told' ELSE NEW.reason END, NEW.approval_id, NEW.run_id, NEW.person, NEW.channel,
        json_build_object('notice_id', NEW.notice_id, 'state', NEW.state, 'attempts', NEW.attempts)::text);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER audit_requested AFTER INSERT ON approvals.requests DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.asked_at IS NOT NULL) EXECUTE FUNCTION approvals.audit_request('requested');
CREATE CONSTRAINT TRIGGER audit_requested_late AFTER UPDATE OF asked_at ON approvals.requests DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.asked_at IS NULL AND NEW.asked_at IS NOT NULL) EXECUTE FUNCTION approvals.audit_request('requested');
CREATE CONSTRAINT TRIGGER audit_unused AFTER UPDATE OF unused_at ON approvals.requests DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.unused_at IS NULL AND NEW.unused_at IS NOT NULL) EXECUTE FUNCTION approvals.audit_request('unused');
CREATE CONSTRAINT TRIGGER audit_decided AFTER INSERT ON approvals.decisions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION approvals.audit_decision();
CREATE CONSTRAINT TRIGGER audit_told AFTER UPDATE OF state ON approvals.notices DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.approval_id <> '' AND NEW.state IN ('delivered', 'failed', 'unknown') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION approvals.audit_notice();

-- What the tools service says of an approved call, until it has ended.
ALTER TABLE approvals.requests
    ADD COLUMN dispatched boolean NOT NULL DEFAULT false, -- the audit has it
    ADD COLUMN outcome text NOT NULL DEFAULT '';          -- the audit has it
CREATE INDEX requests_unfinished ON approvals.requests (decided_at) WHERE state = 'approved' AND outcome = '';

GRANT SELECT ON approvals.audit, approvals.audit_heads TO holdfast_approvals;

-- +goose Down
DROP INDEX approvals.requests_unfinished;
ALTER TABLE approvals.requests DROP COLUMN outcome, DROP COLUMN dispatched;
DROP TRIGGER audit_told ON approvals.notices;
DROP TRIGGER audit_decided ON approvals.decisions;
DROP TRIGGER audit_unused ON approvals.requests;
DROP TRIGGER audit_requested_late ON approvals.requests;
DROP TRIGGER audit_requested ON approvals.requests;
DROP FUNCTION approvals.audit_notice();
DROP FUNCTION approvals.audit_decision();
DROP FUNCTION approvals.audit_request();
DROP FUNCTION approvals.audit_append(text, text, text, text, text, text, text, boolean);
DROP TABLE approvals.audit_heads;
DROP TABLE approvals.audit;
