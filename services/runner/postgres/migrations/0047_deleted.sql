-- +goose Up
-- What stays of a run that was deleted: that it was, by whom, and how it had ended. The
-- row keeps messages that are still under way from bringing the run back. n counts
-- deletions in the order of their commits, so that other services delete what is theirs
-- from where they stopped.
CREATE TABLE runner.deleted (
    run_id      text PRIMARY KEY,
    n           bigint NOT NULL UNIQUE,
    root_run_id text NOT NULL, -- the run with which it went
    namespace   text NOT NULL,
    kind        text NOT NULL,
    name        text NOT NULL,
    status      text NOT NULL,
    ended_at    timestamptz NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_by  text NOT NULL, -- who ordered it; 'retention' when its time was over
    reason      text NOT NULL DEFAULT '',
    purged_at   timestamptz -- when the last of the runner's rows about it was gone
);
CREATE INDEX deleted_owed ON runner.deleted (n) WHERE purged_at IS NULL;
CREATE INDEX deleted_age ON runner.deleted (purged_at) WHERE purged_at IS NOT NULL;
CREATE INDEX deleted_list ON runner.deleted (namespace, n DESC);
-- The newest n. Whoever deletes runs holds this row until it commits.
CREATE TABLE runner.deletions (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    last bigint NOT NULL
);
INSERT INTO runner.deletions (last) VALUES (0);
GRANT SELECT, INSERT, UPDATE, DELETE ON runner.deleted TO holdfast_runner;
GRANT SELECT, UPDATE ON runner.deletions TO holdfast_runner;

CREATE VIEW runner.v_deleted AS
SELECT run_id, n, namespace, kind, name, status, ended_at, deleted_at, deleted_by, reason, root_run_id, purged_at FROM runner.deleted;
GRANT SELECT ON runner.v_deleted TO holdfast_trigger, holdfast_tools, holdfast_approvals, holdfast_console;

-- Runs that have ended and that no run started, by their age. The end is the only change
-- that touches it.
CREATE INDEX runs_ended ON runner.runs (ended_at, run_id) WHERE ended_at IS NOT NULL;

-- A process that slept through all of it does not begin the run again.
-- +goose StatementBegin
CREATE FUNCTION runner.stay_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT FROM runner.deleted d WHERE d.run_id = NEW.run_id) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER stay_deleted BEFORE INSERT ON runner.runs FOR EACH ROW EXECUTE FUNCTION runner.stay_deleted();

-- The bytes of a run went with its row, all in one statement; they go in slices now.
DROP TRIGGER forget ON runner.runs;

-- Deletes at most so many rows of the journals of deleted runs, then of what else the
-- runner keeps of them, and says how many. The journal of any other run stays
-- append-only, also for the runner.
-- +goose StatementBegin
CREATE FUNCTION runner.purge(runs text[], most int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    gone int;
    more int;
BEGIN
    IF EXISTS (SELECT FROM unnest(runs) r WHERE NOT EXISTS (SELECT FROM runner.deleted d WHERE d.run_id = r)) THEN
        RAISE EXCEPTION 'a run that is not deleted keeps its rows';
    END IF;
    DELETE FROM runner.journal j USING (SELECT x.run_id, x.seq FROM runner.journal x WHERE x.run_id = ANY (runs) LIMIT most) old
     WHERE j.run_id = old.run_id AND j.seq = old.seq;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone >= most THEN
        RETURN gone;
    END IF;
    DELETE FROM blob.blobs b USING (SELECT x.scope, x.digest FROM blob.blobs x WHERE x.scope = ANY (SELECT 'run:' || r FROM unnest(runs) r) LIMIT greatest(1, most / 50)) old
     WHERE b.scope = old.scope AND b.digest = old.digest;
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN gone + more;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION runner.purge(text[], int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION runner.purge(text[], int) TO holdfast_runner;
GRANT DELETE ON runner.alerts, runner.notices, runner.trees TO holdfast_runner;

-- +goose Down
REVOKE DELETE ON runner.notices, runner.trees FROM holdfast_runner;
DROP FUNCTION runner.purge(text[], int);
DROP TRIGGER stay_deleted ON runner.runs;
DROP FUNCTION runner.stay_deleted();
DROP INDEX runner.runs_ended;
DROP VIEW runner.v_deleted;
DROP TABLE runner.deletions;
DROP TABLE runner.deleted;
CREATE TRIGGER forget AFTER DELETE ON runner.runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION blob.forget('run', 'run_id');
