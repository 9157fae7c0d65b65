-- +goose Up
-- As in the runner's schema: how far a worker's own clock is ahead of the database's.
ALTER TABLE tools.workers ADD COLUMN skew_ms bigint;

CREATE VIEW tools.v_clocks AS SELECT name, skew_ms FROM tools.workers WHERE skew_ms IS NOT NULL;
GRANT SELECT ON tools.v_clocks TO holdfast_console;

-- +goose Down
DROP VIEW tools.v_clocks;
ALTER TABLE tools.workers DROP COLUMN skew_ms;
