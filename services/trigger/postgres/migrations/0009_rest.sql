-- +goose Up
-- While a schedule catches up it rests between two batches of fires, in every
-- replica: a due hand is left alone until then.
ALTER TABLE trigger.schedules ADD COLUMN rest_until timestamptz;

-- +goose Down
ALTER TABLE trigger.schedules DROP COLUMN rest_until;
