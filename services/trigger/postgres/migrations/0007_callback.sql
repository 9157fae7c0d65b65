-- +goose Up
-- Where the run's end is posted to; empty for nowhere.
ALTER TABLE trigger.deliveries ADD COLUMN callback text NOT NULL DEFAULT '';

CREATE VIEW trigger.v_callbacks AS SELECT run_id, namespace, callback FROM trigger.deliveries WHERE callback <> '';
GRANT SELECT ON trigger.v_callbacks TO holdfast_console;

-- +goose Down
DROP VIEW trigger.v_callbacks;
ALTER TABLE trigger.deliveries DROP COLUMN callback;
