-- +goose Up
-- How far trigger deleted what it has of deleted runs: n of runner.v_deleted.
CREATE TABLE trigger.forgotten (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    last bigint  NOT NULL
);
INSERT INTO trigger.forgotten (last) VALUES (0);
-- A start whose run was deleted keeps the key under which a repeat is known, until it is
-- old itself.
ALTER TABLE trigger.deliveries ADD COLUMN forgotten_at timestamptz;
CREATE INDEX deliveries_forgotten ON trigger.deliveries (forgotten_at) WHERE forgotten_at IS NOT NULL;
CREATE INDEX signals_taken ON trigger.signals (run_id) WHERE state = 'taken';

-- Empties at most so many starts, log entries and signals of deleted runs and says how
-- many; 0: nothing is left, or another process is at it.
-- +goose StatementBegin
CREATE FUNCTION trigger.forget(most int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    place bigint;
    upto  bigint;
    runs  text[];
    ids   uuid[];
    gone  int;
    more  int;
BEGIN
    SELECT last INTO place FROM trigger.forgotten FOR UPDATE SKIP LOCKED;
    SELECT max(d.n), array_agg(d.run_id) INTO upto, runs FROM (SELECT n, run_id FROM runner.v_deleted WHERE n > place ORDER BY n LIMIT 100) d;
    IF upto IS NULL THEN
        RETURN 0;
    END IF;
    WITH emptied AS (
        UPDATE trigger.deliveries d SET input = 'null', labels = '{}', callback = '', traceparent = '', forgotten_at = clock_timestamp()
         WHERE d.run_id = ANY (runs) AND d.forgotten_at IS NULL RETURNING d.namespace, d.delivery_id),
    logged AS (
        UPDATE trigger.attempts a SET body = NULL, headers = '{}', query = '{}', remote = '', detail = ''
          FROM emptied e WHERE a.namespace = e.namespace AND a.attempt_id = e.delivery_id)
    SELECT count(*), array_agg(delivery_id) INTO gone, ids FROM emptied;
    DELETE FROM blob.blobs b WHERE b.scope = ANY (SELECT 'delivery:' || id FROM unnest(ids) id);
    UPDATE trigger.announcements a SET landed_at = clock_timestamp(), announced_at = coalesce(a.announced_at, clock_timestamp())
     WHERE a.run_id = ANY (runs) AND a.landed_at IS NULL;
    UPDATE trigger.cancels c SET landed_at = clock_timestamp() WHERE c.run_id = ANY (runs) AND c.landed_at IS NULL;
    UPDATE trigger.fires f SET ended_at = clock_timestamp() WHERE f.state = 'started' AND f.ended_at IS NULL AND f.run_id = ANY (runs);
    DELETE FROM trigger.places p WHERE p.run_id = ANY (runs);
    -- Its wait is gone: it is free for another, as one that came late.
    UPDATE trigger.signals s SET state = 'kept', run_id = NULL, item = NULL, late = s.late + 1 WHERE s.state = 'sent' AND s.run_id = ANY (runs);
    UPDATE trigger.signals s SET data = 'null' FROM (
        SELECT x.signal_id FROM trigger.signals x WHERE x.state = 'taken' AND x.run_id = ANY (runs) AND x.data::text <> 'null' LIMIT most) old
     WHERE s.signal_id = old.signal_id;
    GET DIAGNOSTICS more = ROW_COUNT;
    IF more < most THEN
        UPDATE trigger.forgotten SET last = upto;
    END IF;
    RETURN greatest(gone + more, 1);
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION trigger.forget(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION trigger.forget(int) TO holdfast_trigger;

-- +goose Down
DROP FUNCTION trigger.forget(int);
DROP INDEX trigger.signals_taken;
DROP INDEX trigger.deliveries_forgotten;
ALTER TABLE trigger.deliveries DROP COLUMN forgotten_at;
DROP TABLE trigger.forgotten;
