-- +goose Up
-- What operators ordered to be deleted, once for each run: a debt until the runner has
-- deleted it (runner.v_deleted).
CREATE TABLE console.deletions (
    run_id         text        PRIMARY KEY,
    namespace      text        NOT NULL,
    principal      text        NOT NULL,
    reason         text        NOT NULL,
    ordered_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    carried_out_at timestamptz
);
CREATE INDEX deletions_owed ON console.deletions (run_id) WHERE carried_out_at IS NULL;
CREATE VIEW console.v_deletions AS
SELECT run_id, namespace, principal, reason, ordered_at FROM console.deletions WHERE carried_out_at IS NULL;
GRANT USAGE ON SCHEMA console TO holdfast_runner;
GRANT SELECT ON console.v_deletions TO holdfast_runner;
GRANT SELECT, INSERT ON console.deletions TO holdfast_console;

-- How far the console deleted what it has of deleted runs: n of runner.v_deleted.
CREATE TABLE console.forgotten (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    last bigint  NOT NULL
);
INSERT INTO console.forgotten (last) VALUES (0);

-- Deletes at most so many commands of deleted runs and says how many; 0: nothing is left,
-- or another process is at it. The order that made a run (fork, retry) stays without what
-- it says: a run is retried once, also when the retry was deleted.
-- +goose StatementBegin
CREATE FUNCTION console.forget(most int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    place bigint;
    upto  bigint;
    runs  text[];
    gone  int;
    more  int;
BEGIN
    SELECT last INTO place FROM console.forgotten FOR UPDATE SKIP LOCKED;
    SELECT max(d.n), array_agg(d.run_id) INTO upto, runs FROM (SELECT n, run_id FROM runner.v_deleted WHERE n > place ORDER BY n LIMIT 100) d;
    IF upto IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM console.commands c USING (SELECT id FROM console.commands WHERE run_id = ANY (runs) AND kind <> 'fork' LIMIT most) old WHERE c.id = old.id;
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE console.commands SET body = '{}', landed_at = coalesce(landed_at, clock_timestamp()) WHERE run_id = ANY (runs) AND kind = 'fork' AND body::text <> '{}';
    GET DIAGNOSTICS more = ROW_COUNT;
    gone := gone + more;
    IF gone < most THEN
        UPDATE console.deletions SET carried_out_at = clock_timestamp() WHERE run_id = ANY (runs) AND carried_out_at IS NULL;
        UPDATE console.forgotten SET last = upto;
    END IF;
    RETURN greatest(gone, 1);
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION console.forget(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION console.forget(int) TO holdfast_console;

-- +goose Down
DROP FUNCTION console.forget(int);
DROP TABLE console.forgotten;
DROP VIEW console.v_deletions;
DROP TABLE console.deletions;
REVOKE USAGE ON SCHEMA console FROM holdfast_runner;
