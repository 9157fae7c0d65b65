-- +goose Up
-- How far a worker's own clock is ahead of the database's, as of its last beat, its
-- way to the database included; null of a release that does not say. Nothing is
-- decided by it: people are told when it is large.
ALTER TABLE runner.workers ADD COLUMN skew_ms bigint;

CREATE VIEW runner.v_clocks AS SELECT name, skew_ms FROM runner.workers WHERE skew_ms IS NOT NULL;
GRANT SELECT ON runner.v_clocks TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_clocks;
ALTER TABLE runner.workers DROP COLUMN skew_ms;
