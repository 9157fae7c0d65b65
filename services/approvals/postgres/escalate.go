package postgres

import "context"

// escalateSQL takes the next step of requests that wait and have time left: the row
// that says so is moved on in the same statement, so of two who look at once the second
// finds nothing due. What was put off is shown again.
const escalateSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
	SELECT approval_id FROM approvals.requests
	WHERE state = 'pending' AND escalate_at <= (SELECT now FROM t) AND (keeps OR expires_at > (SELECT now FROM t))
	ORDER BY escalate_at LIMIT $1 FOR UPDATE SKIP LOCKED),
risen AS (
	UPDATE approvals.requests r SET escalated = r.escalated + 1, escalate_at = r.escalations[r.escalated + 2], deferred_until = NULL
	FROM due, t WHERE r.approval_id = due.approval_id AND r.state = 'pending'
	RETURNING r.namespace, r.run_id, r.approval_id, r.agent, r.tool, r.escalated, t.now, r.approval_id || '-escalate-' || r.escalated AS id,
		coalesce(r.rule -> 'escalate' -> (r.escalated - 1) ->> 'channel', '') AS channel, r.rule -> 'escalate' -> (r.escalated - 1) -> 'deciders' AS deciders),
shown AS (
	UPDATE approvals.notices n SET state = 'gone', next_at = NULL, problem = 'the request was escalated before'
	FROM risen r WHERE n.approval_id = r.approval_id AND n.run_id = r.run_id AND starts_with(n.notice_id, r.approval_id || '-defer-') AND n.state = 'due'),
noted AS (
	INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, approval_id, body)
	SELECT id, namespace, channel, 'approval', run_id, approval_id,
		json_build_object('notice_id', id, 'namespace', namespace, 'channel', channel, 'reason', 'approval', 'run_id', run_id,
			'name', agent, 'approval_id', approval_id, 'tool', tool, 'at', now)
	FROM risen WHERE channel <> '' ON CONFLICT DO NOTHING)
SELECT approvals.audit_append(namespace, 'escalated', approval_id, run_id, '', channel, json_build_object('number', escalated, 'deciders', deciders)::text)
FROM (SELECT * FROM risen ORDER BY namespace, approval_id) n` // the order in which the ends of the audit's chains are locked

// Escalate implements approvals.Decider.
func (s *Store) Escalate(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, escalateSQL, limit)
	return int(tag.RowsAffected()), err
}
