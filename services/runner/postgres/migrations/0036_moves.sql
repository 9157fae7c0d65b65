-- +goose Up
-- The rows by which a run is moved to another version of its agent. They are few.
CREATE INDEX journal_moves ON runner.journal (run_id, seq) WHERE kind IN ('migration_ordered', 'run_migrated', 'migration_refused');
CREATE VIEW runner.v_moves AS
SELECT j.run_id, r.namespace, j.seq, j.kind, j.at, j.data
FROM runner.journal j JOIN runner.runs r USING (run_id)
WHERE j.kind IN ('migration_ordered', 'run_migrated', 'migration_refused');
GRANT SELECT ON runner.v_moves TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_moves;
DROP INDEX runner.journal_moves;
