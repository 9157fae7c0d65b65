-- +goose Up
-- What people made of the calls of a run. The run's journal says it too, so whoever may
-- read the run may read this.
CREATE VIEW approvals.v_edits AS
SELECT approval_id, namespace, run_id, call_id, tool, args, edited_args, decided_by, door, comment, decided_at
FROM approvals.requests
WHERE edited_args IS NOT NULL AND args IS NOT NULL;
GRANT SELECT ON approvals.v_edits TO holdfast_approvals, holdfast_console;

-- +goose Down
DROP VIEW approvals.v_edits;
