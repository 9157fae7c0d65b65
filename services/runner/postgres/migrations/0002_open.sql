-- +goose Up
-- Runs that have not ended: what a limit on runs in flight counts.
CREATE VIEW runner.v_open AS SELECT run_id FROM runner.runs WHERE ended_at IS NULL;
GRANT SELECT ON runner.v_open TO holdfast_trigger;

-- +goose Down
DROP VIEW runner.v_open;
