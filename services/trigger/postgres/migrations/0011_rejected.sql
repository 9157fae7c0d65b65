-- +goose Up
CREATE VIEW trigger.v_rejected AS SELECT rejected_at AS at, code, source_kind || '/' || source_name AS subject FROM trigger.rejected;
CREATE INDEX rejected_at ON trigger.rejected (rejected_at);
GRANT SELECT ON trigger.v_rejected TO holdfast_console;

-- +goose Down
DROP VIEW trigger.v_rejected;
DROP INDEX trigger.rejected_at;
