-- +goose Up
-- How far approvals deleted what it has of deleted runs: n of runner.v_deleted.
CREATE TABLE approvals.forgotten (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    last bigint  NOT NULL
);
INSERT INTO approvals.forgotten (last) VALUES (0);

-- Nobody is asked or told about a run that was deleted, whatever comes late.
-- +goose StatementBegin
CREATE FUNCTION approvals.stay_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT FROM runner.v_deleted d WHERE d.run_id = NEW.run_id) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER stay_deleted BEFORE INSERT ON approvals.requests FOR EACH ROW EXECUTE FUNCTION approvals.stay_deleted();
CREATE TRIGGER stay_deleted BEFORE INSERT ON approvals.notices FOR EACH ROW WHEN (NEW.run_id <> '') EXECUTE FUNCTION approvals.stay_deleted();

-- Empties at most so many requests of deleted runs, deletes what was sent about them, and
-- says how many; 0: nothing is left, or another process is at it. That something was asked,
-- by whom it was decided, when and how stays: that is the audit.
-- +goose StatementBegin
CREATE FUNCTION approvals.forget(most int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    place bigint;
    upto  bigint;
    runs  text[];
    gone  int;
    more  int;
BEGIN
    SELECT last INTO place FROM approvals.forgotten FOR UPDATE SKIP LOCKED;
    SELECT max(d.n), array_agg(d.run_id) INTO upto, runs FROM (SELECT n, run_id FROM runner.v_deleted WHERE n > place ORDER BY n LIMIT 100) d;
    IF upto IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM approvals.notices n USING (SELECT x.notice_id FROM approvals.notices x WHERE x.run_id <> '' AND x.run_id = ANY (runs) LIMIT most) old
     WHERE n.notice_id = old.notice_id;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone < most THEN
        DELETE FROM approvals.links l USING (
            SELECT x.token_sha256 FROM approvals.links x JOIN approvals.requests r ON r.approval_id = x.approval_id WHERE r.run_id = ANY (runs) LIMIT most - gone) old
         WHERE l.token_sha256 = old.token_sha256;
        GET DIAGNOSTICS more = ROW_COUNT;
        gone := gone + more;
    END IF;
    IF gone < most THEN
        UPDATE approvals.requests r SET args = 'null', summary = 'of a run that was deleted', preview = '', labels = '{}',
            edited_args = CASE WHEN r.edited_args IS NOT NULL THEN 'null'::json END,
            question = CASE WHEN r.question IS NOT NULL THEN 'null'::json END, result = CASE WHEN r.result IS NOT NULL THEN 'null'::json END,
            next_announce_at = NULL, landed_at = coalesce(r.landed_at, clock_timestamp())
          FROM (SELECT x.approval_id FROM approvals.requests x WHERE x.run_id = ANY (runs) AND x.state <> 'pending' AND x.args::text <> 'null' LIMIT most - gone) old
         WHERE r.approval_id = old.approval_id;
        GET DIAGNOSTICS more = ROW_COUNT;
        gone := gone + more;
    END IF;
    IF gone < most THEN
        UPDATE approvals.decisions d SET args = 'null' FROM approvals.requests r
         WHERE r.run_id = ANY (runs) AND d.approval_id = r.approval_id AND d.args::text <> 'null';
        UPDATE approvals.forgotten SET last = upto;
    END IF;
    RETURN greatest(gone, 1);
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION approvals.forget(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION approvals.forget(int) TO holdfast_approvals;

-- +goose Down
DROP FUNCTION approvals.forget(int);
DROP TRIGGER stay_deleted ON approvals.notices;
DROP TRIGGER stay_deleted ON approvals.requests;
DROP FUNCTION approvals.stay_deleted();
DROP TABLE approvals.forgotten;
