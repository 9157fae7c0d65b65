-- +goose Up
-- The place of a message among those to its run, from 1 on: the order in which
-- they were taken is the order in which they are read.
ALTER TABLE console.commands ADD COLUMN place int;
CREATE UNIQUE INDEX commands_place ON console.commands (run_id, place) WHERE place IS NOT NULL;

-- +goose Down
DROP INDEX console.commands_place;
ALTER TABLE console.commands DROP COLUMN place;
