-- +goose Up
-- What was said to the run, and how much of it no request has had. Both change
-- with the row that says it, and are in no index.
ALTER TABLE runner.runs ADD COLUMN messages int NOT NULL DEFAULT 0, ADD COLUMN messages_unread int NOT NULL DEFAULT 0;

-- How runs are steered from outside; more columns may come at the end.
CREATE VIEW runner.v_control AS SELECT run_id, namespace, messages, messages_unread FROM runner.runs;
GRANT SELECT ON runner.v_control TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_control;
ALTER TABLE runner.runs DROP COLUMN messages, DROP COLUMN messages_unread;
