-- +goose Up
-- Which runs have ended, for those who started them and must not start the next
-- before: no more than that.
CREATE VIEW runner.v_ends AS SELECT run_id, status, ended_at FROM runner.runs WHERE ended_at IS NOT NULL;
GRANT SELECT ON runner.v_ends TO holdfast_trigger;

-- +goose Down
DROP VIEW runner.v_ends;
