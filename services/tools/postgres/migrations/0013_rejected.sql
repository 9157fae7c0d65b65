-- +goose Up
CREATE VIEW tools.v_rejected AS SELECT rejected_at AS at, code, subject FROM tools.rejected;
CREATE INDEX rejected_at ON tools.rejected (rejected_at);
GRANT SELECT ON tools.v_rejected TO holdfast_console;

-- +goose Down
DROP VIEW tools.v_rejected;
DROP INDEX tools.rejected_at;
