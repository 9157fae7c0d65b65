-- +goose Up
-- Where the run's end is posted to; empty for nowhere.
ALTER TABLE runner.runs ADD COLUMN callback text NOT NULL DEFAULT '';

-- Runs with a callback, for those who post it and those who show it. The large
-- columns are only read by who asks for them.
CREATE VIEW runner.v_callbacks AS
SELECT run_id, namespace, kind, name, status, output, error, labels, callback, model_calls, tool_calls, tokens,
       accepted_at, created_at, ended_at
FROM runner.runs WHERE callback <> '';
GRANT SELECT ON runner.v_callbacks TO holdfast_tools, holdfast_console;

-- +goose Down
DROP VIEW runner.v_callbacks;
ALTER TABLE runner.runs DROP COLUMN callback;
