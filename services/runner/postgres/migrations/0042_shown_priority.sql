-- +goose Up
-- Whose turn comes before the run's is shown with how it is steered.
CREATE OR REPLACE VIEW runner.v_control AS SELECT run_id, namespace, messages, messages_unread, deadline, priority FROM runner.runs;

-- +goose Down
DROP VIEW runner.v_control;
CREATE VIEW runner.v_control AS SELECT run_id, namespace, messages, messages_unread, deadline FROM runner.runs;
GRANT SELECT ON runner.v_control TO holdfast_console;
