-- +goose Up
-- A call that waits for a signal is a pending item whose detail says which one.
-- Its row is never asked about again: next_nudge is infinity.
ALTER TABLE runner.pending
    ADD COLUMN wait_name text GENERATED ALWAYS AS (CASE WHEN kind = 'signal' THEN detail::json->>'name' END) STORED,
    -- NULL also for a wait without a key, which takes only what is sent to its run.
    ADD COLUMN wait_key  text GENERATED ALWAYS AS (CASE WHEN kind = 'signal' THEN detail::json->>'key' END) STORED;
-- Who has waited longest for a signal.
CREATE INDEX pending_waits ON runner.pending (namespace, wait_name, wait_key, since) WHERE wait_key IS NOT NULL;

-- Open waits, for who hands out signals; and what became of a signal that was
-- sent to a run: taken, or late.
CREATE VIEW runner.v_waits AS
SELECT run_id, namespace, item, wait_name AS name, wait_key AS key, since FROM runner.pending WHERE wait_key IS NOT NULL;
CREATE VIEW runner.v_signals AS
SELECT run_id, cause, kind = 'signal_received' AS taken FROM runner.journal WHERE inbound;
GRANT SELECT ON runner.v_waits, runner.v_signals TO holdfast_trigger;

-- +goose Down
DROP VIEW runner.v_signals, runner.v_waits;
DROP INDEX runner.pending_waits;
ALTER TABLE runner.pending DROP COLUMN wait_key, DROP COLUMN wait_name;
