-- +goose Up
-- The priority that the start asks for; empty for none.
ALTER TABLE trigger.deliveries ADD COLUMN priority text NOT NULL DEFAULT '';

-- Signals that are over are forgotten after a while.
CREATE INDEX signals_over ON trigger.signals (coalesce(taken_at, expires_at)) WHERE state IN ('taken', 'expired');
GRANT DELETE ON trigger.signals TO holdfast_trigger;

-- +goose Down
REVOKE DELETE ON trigger.signals FROM holdfast_trigger;
DROP INDEX trigger.signals_over;
ALTER TABLE trigger.deliveries DROP COLUMN priority;
