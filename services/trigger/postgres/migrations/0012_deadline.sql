-- +goose Up
-- What the start says about its deadline: a moment or a time, as text; empty for
-- nothing.
ALTER TABLE trigger.deliveries ADD COLUMN deadline text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE trigger.deliveries DROP COLUMN deadline;
