-- +goose Up
CREATE VIEW approvals.v_rejected AS SELECT at, code, subject FROM approvals.rejected;
CREATE INDEX rejected_at ON approvals.rejected (at);
GRANT SELECT ON approvals.v_rejected TO holdfast_console;

-- +goose Down
DROP VIEW approvals.v_rejected;
DROP INDEX approvals.rejected_at;
