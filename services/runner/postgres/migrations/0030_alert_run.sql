-- +goose Up
-- The run whose booking or commit passed the threshold: whose agent is told.
ALTER TABLE runner.alerts ADD COLUMN passed_by text;

-- +goose Down
ALTER TABLE runner.alerts DROP COLUMN passed_by;
