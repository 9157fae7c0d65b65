-- +goose Up
-- Runs that have not ended are few beside those that have: lists of one status
-- and commands for many runs read them without the rest. The end is the only
-- change that touches it.
CREATE INDEX runs_open ON runner.runs (namespace, run_id DESC) WHERE ended_at IS NULL;

-- +goose Down
DROP INDEX runner.runs_open;
