-- +goose Up
-- What people did through links and in Slack, for the console's audit: these come to no
-- door that knows them by a token or a session.
CREATE VIEW approvals.v_audit AS
    SELECT namespace, 'approvals:' || seq AS id, at, kind, approval_id, run_id, actor, door,
           coalesce(detail::json ->> 'decision', '') AS decision, coalesce(detail::json ->> 'comment', '') AS comment, coalesce(detail::json ->> 'outcome', '') AS outcome
      FROM approvals.audit
     WHERE actor <> '' AND door IN ('link', 'slack') AND kind IN ('decided', 'attempted', 'deferred');
GRANT SELECT ON approvals.v_audit TO holdfast_console;

-- +goose Down
DROP VIEW approvals.v_audit;
