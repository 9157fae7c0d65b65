-- +goose Up
-- The priority that the start asks for; empty for none.
ALTER TABLE trigger.deliveries ADD COLUMN priority text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE trigger.deliveries DROP COLUMN priority;
