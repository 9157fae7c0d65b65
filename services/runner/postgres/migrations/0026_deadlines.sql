-- +goose Up
-- When the run ends at the latest; written once.
ALTER TABLE runner.runs ADD COLUMN deadline timestamptz;
CREATE OR REPLACE VIEW runner.v_control AS SELECT run_id, namespace, messages, messages_unread, deadline FROM runner.runs;

-- +goose Down
DROP VIEW runner.v_control;
CREATE VIEW runner.v_control AS SELECT run_id, namespace, messages, messages_unread FROM runner.runs;
GRANT SELECT ON runner.v_control TO holdfast_console;
ALTER TABLE runner.runs DROP COLUMN deadline;
