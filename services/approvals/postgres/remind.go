package postgres

import (
	"context"
)

// remindSQL stores the next reminder of requests that wait, are not put off and have
// time left. The row that says so is moved on to its next reminder in the same
// statement, so of two who look at once the second finds nothing due. After a time in
// which nobody looked the next one keeps its distance.
const remindSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
	SELECT approval_id FROM approvals.requests
	WHERE state = 'pending' AND remind_at <= (SELECT now FROM t) AND (keeps OR expires_at > (SELECT now FROM t)) AND ` + awake + `
	ORDER BY remind_at LIMIT $1 FOR UPDATE SKIP LOCKED),
told AS (
	UPDATE approvals.requests r SET reminders = r.reminders + 1, remind_gaps = r.remind_gaps[2:],
		remind_at = CASE WHEN r.remind_at + r.remind_gaps[2] * interval '1 millisecond' > t.now
			THEN r.remind_at ELSE t.now END + r.remind_gaps[2] * interval '1 millisecond'
	FROM due, t WHERE r.approval_id = due.approval_id AND r.state = 'pending'
	RETURNING r.namespace, r.run_id, r.approval_id, r.channel, r.agent, r.tool, r.reminders, t.now, r.approval_id || '-remind-' || r.reminders AS id),
noted AS (
	INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, approval_id, body)
	SELECT id, namespace, channel, 'approval', run_id, approval_id,
		json_build_object('notice_id', id, 'namespace', namespace, 'channel', channel, 'reason', 'approval', 'run_id', run_id,
			'name', agent, 'approval_id', approval_id, 'tool', tool, 'at', now)
	FROM told ON CONFLICT DO NOTHING)
SELECT approvals.audit_append(namespace, 'reminded', approval_id, run_id, '', channel, json_build_object('notice_id', id, 'number', reminders)::text)
FROM (SELECT * FROM told ORDER BY namespace, approval_id) n` // the order in which the ends of the audit's chains are locked

// Remind implements approvals.Decider.
func (s *Store) Remind(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, remindSQL, limit)
	return int(tag.RowsAffected()), err
}
