-- +goose Up
-- What was rejected, without bodies: whoever looks after the system reads counts.
CREATE VIEW runner.v_rejected AS SELECT at, code, subject FROM runner.rejected;
CREATE INDEX rejected_at ON runner.rejected (at);
-- What a check-up counts of runs that have not ended.
CREATE VIEW runner.v_health AS
SELECT run_id, namespace, status, updated_at, paused_for, min_reader FROM runner.runs WHERE ended_at IS NULL;
GRANT SELECT ON runner.v_rejected, runner.v_health TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_health;
DROP VIEW runner.v_rejected;
DROP INDEX runner.rejected_at;
