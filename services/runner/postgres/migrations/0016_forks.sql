-- +goose Up
-- Runs that began with the rows of another. The columns are written once.
ALTER TABLE runner.runs ADD COLUMN forked_from text, ADD COLUMN forked_row bigint, ADD COLUMN retried boolean NOT NULL DEFAULT false;
CREATE INDEX runs_by_origin ON runner.runs (forked_from, run_id) WHERE forked_from IS NOT NULL;
CREATE VIEW runner.v_forks AS
SELECT run_id, namespace, forked_from, forked_row, retried, status, created_at FROM runner.runs WHERE forked_from IS NOT NULL;
GRANT SELECT ON runner.v_forks TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_forks;
DROP INDEX runner.runs_by_origin;
ALTER TABLE runner.runs DROP COLUMN forked_from, DROP COLUMN forked_row, DROP COLUMN retried;
