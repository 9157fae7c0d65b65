-- +goose Up
-- How much of a run's input was read from, and written to, the provider's cache:
-- it is priced apart, and shown beside the tokens that it is part of.
ALTER TABLE runner.runs
    ADD COLUMN cache_read_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW runner.v_control AS
SELECT run_id, namespace, messages, messages_unread, deadline, priority, cache_read_tokens, cache_write_tokens FROM runner.runs;

-- +goose Down
DROP VIEW runner.v_control;
CREATE VIEW runner.v_control AS SELECT run_id, namespace, messages, messages_unread, deadline, priority FROM runner.runs;
GRANT SELECT ON runner.v_control TO holdfast_console;
ALTER TABLE runner.runs DROP COLUMN cache_write_tokens, DROP COLUMN cache_read_tokens;
