-- +goose Up
-- The oldest reader that understands the run's rows. The commit that writes a
-- newer form raises it; a release below it leaves the run alone.
ALTER TABLE runner.runs ADD COLUMN min_reader int NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE runner.runs DROP COLUMN min_reader;
