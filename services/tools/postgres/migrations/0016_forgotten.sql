-- +goose Up
-- How far tools deleted what it has of deleted runs: n of runner.v_deleted.
CREATE TABLE tools.forgotten (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    last bigint  NOT NULL
);
INSERT INTO tools.forgotten (last) VALUES (0);
CREATE INDEX controls_run ON tools.controls (run_id);
CREATE INDEX announcements_run ON tools.announcements (run_id);

-- A call of a run that was deleted is not made, whoever slept with its message in hand.
-- +goose StatementBegin
CREATE FUNCTION tools.stay_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT FROM runner.v_deleted d WHERE d.run_id = NEW.run_id) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER stay_deleted BEFORE INSERT ON tools.calls FOR EACH ROW EXECUTE FUNCTION tools.stay_deleted();

-- Deletes at most so many rows of what tools has of deleted runs and says how many; 0:
-- nothing is left, or another process is at it. Effects and their receipts are the ledger
-- and stay: what was done is not done again. So does an artifact that another run shares.
-- +goose StatementBegin
CREATE FUNCTION tools.forget(most int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    place bigint;
    upto  bigint;
    runs  text[];
    gone  int;
    more  int;
BEGIN
    SELECT last INTO place FROM tools.forgotten FOR UPDATE SKIP LOCKED;
    SELECT max(d.n), array_agg(d.run_id) INTO upto, runs FROM (SELECT n, run_id FROM runner.v_deleted WHERE n > place ORDER BY n LIMIT 100) d;
    IF upto IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM tools.artifacts a USING (
        SELECT x.artifact_id FROM tools.artifacts x
         WHERE x.run_id = ANY (runs) AND NOT EXISTS (SELECT FROM tools.calls c WHERE c.effect_id = x.effect_id AND c.run_id <> ALL (runs)) LIMIT most) old
     WHERE a.artifact_id = old.artifact_id;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone < most THEN
        DELETE FROM tools.calls c USING (SELECT x.call_id FROM tools.calls x WHERE x.run_id = ANY (runs) AND x.status <> 'open' LIMIT most - gone) old
         WHERE c.call_id = old.call_id;
        GET DIAGNOSTICS more = ROW_COUNT;
        gone := gone + more;
    END IF;
    IF gone < most THEN
        DELETE FROM tools.controls c USING (SELECT x.id FROM tools.controls x WHERE x.run_id = ANY (runs) LIMIT most - gone) old WHERE c.id = old.id;
        GET DIAGNOSTICS more = ROW_COUNT;
        gone := gone + more;
    END IF;
    IF gone < most THEN
        DELETE FROM tools.announcements a USING (SELECT x.n FROM tools.announcements x WHERE x.run_id = ANY (runs) LIMIT most - gone) old WHERE a.n = old.n;
        GET DIAGNOSTICS more = ROW_COUNT;
        gone := gone + more;
    END IF;
    IF gone < most THEN
        UPDATE tools.forgotten SET last = upto;
    END IF;
    RETURN greatest(gone, 1);
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION tools.forget(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tools.forget(int) TO holdfast_tools;

-- +goose Down
DROP FUNCTION tools.forget(int);
DROP TRIGGER stay_deleted ON tools.calls;
DROP FUNCTION tools.stay_deleted();
DROP INDEX tools.announcements_run;
DROP INDEX tools.controls_run;
DROP TABLE tools.forgotten;
