-- +goose Up
-- What people look for runs by. None of it changes after the insert, so an update of a
-- step stays a heap-only update: cost, status and what a run waits for have no index.
CREATE INDEX runs_by_trigger ON runner.runs (namespace, (trigger->>'kind'), (trigger->>'name'), run_id DESC);
CREATE INDEX runs_by_time ON runner.runs (namespace, accepted_at DESC, run_id DESC);
-- Pages show the end of an id, because the beginning is time and looks alike.
CREATE INDEX runs_by_end ON runner.runs (right(run_id, 8));

-- +goose Down
DROP INDEX runner.runs_by_end;
DROP INDEX runner.runs_by_time;
DROP INDEX runner.runs_by_trigger;
