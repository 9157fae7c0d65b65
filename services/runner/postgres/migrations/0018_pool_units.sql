-- +goose Up
-- Pools count more than tokens, and follow the limit of their current definition.
ALTER TABLE runner.pools ADD COLUMN base bigint; -- limit that the ceiling was last set from
ALTER TABLE runner.reservations ADD COLUMN unit text NOT NULL DEFAULT 'tokens';

-- +goose Down
ALTER TABLE runner.reservations DROP COLUMN unit;
ALTER TABLE runner.pools DROP COLUMN base;
