-- +goose Up
-- The rows that a run's plan and named facts follow from. Whoever shows them
-- folds these; a run's row and its other rows stay as they are.
CREATE INDEX journal_known ON runner.journal (run_id, seq) WHERE kind IN ('plan_changed', 'facts_changed');
CREATE VIEW runner.v_known AS
SELECT j.run_id, r.namespace, j.seq, j.kind, j.data
FROM runner.journal j JOIN runner.runs r USING (run_id)
WHERE j.kind IN ('plan_changed', 'facts_changed');
GRANT SELECT ON runner.v_known TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_known;
DROP INDEX runner.journal_known;
