package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// awake leaves out what was put off to a time that has not come.
const awake = `(deferred_until IS NULL OR deferred_until <= (SELECT clock_timestamp()))`

// Reminders go on from the time to which it is put off: people are told then.
const deferSQL = `
UPDATE approvals.requests r SET deferred_until = $2, deferred_at = $3, deferred_by = $4::text, deferrals = deferrals + 1,
	remind_at = CASE WHEN remind_at IS NOT NULL THEN COALESCE($2::timestamptz, $3::timestamptz) + (COALESCE($5::bigint[], remind_gaps))[1] * interval '1 millisecond' END,
	remind_gaps = COALESCE($5::bigint[], remind_gaps)
WHERE approval_id = $1 AND state = 'pending' AND (keeps OR expires_at > clock_timestamp())
RETURNING ` + columns

// What an earlier deferral was to tell is told by the new one, and so is a reminder
// that was not sent yet.
const undeferSQL = `
UPDATE approvals.notices SET state = 'gone', next_at = NULL, problem = 'the request was put off anew'
WHERE approval_id = $1 AND run_id = $2 AND (starts_with(notice_id, $1 || '-defer-') OR starts_with(notice_id, $1 || '-remind-')) AND state = 'due'`

// The row that tells people again waits for its time, and is gone by then when the
// request has ended.
const tellLaterSQL = `
INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, approval_id, body, created_at, next_at)
SELECT id, namespace, channel, 'approval', run_id, approval_id,
	json_build_object('notice_id', id, 'namespace', namespace, 'channel', channel, 'reason', 'approval', 'run_id', run_id,
		'name', agent, 'approval_id', approval_id, 'tool', tool, 'at', deferred_until), deferred_until, deferred_until
FROM (SELECT *, approval_id || '-defer-' || deferrals AS id FROM approvals.requests WHERE approval_id = $1) r
WHERE channel <> '' AND deferred_until IS NOT NULL`

// Defer implements approvals.Decider.
func (s *Store) Defer(ctx context.Context, d approvals.Deferral) (r approvals.Request, outcome approvals.Outcome, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var now time.Time
		var err error
		if r, now, err = locked(ctx, tx, d.ID, d.Namespace); err != nil {
			return err
		}
		var until time.Time
		if until, outcome = approvals.JudgeDefer(r, d, now); outcome != approvals.Decided {
			return nil
		}
		var to *time.Time
		if !until.IsZero() {
			to = &until
		}
		from := now
		if to != nil {
			from = until
		}
		put, err := one(tx.Query(ctx, deferSQL, d.ID, to, now, d.By, r.RemindersAnew(from)))
		if errors.Is(err, pgx.ErrNoRows) {
			outcome = approvals.TooLate // the last moment passed since the row was read
			return nil
		}
		if err != nil {
			return err
		}
		r = put
		for _, q := range []struct {
			sql  string
			args []any
		}{{undeferSQL, []any{string(d.ID), string(r.RunID)}}, {tellLaterSQL, []any{string(d.ID)}}} {
			if _, err := tx.Exec(ctx, q.sql, q.args...); err != nil {
				return err
			}
		}
		detail := map[string]any{"comment_digest": events.DigestOf([]byte(d.Comment))}
		if to != nil {
			detail["until"] = until.UTC()
		}
		return audit(ctx, tx, approvals.AuditEntry{Namespace: r.Namespace, Kind: approvals.AuditDeferred, ApprovalID: r.ID, RunID: r.RunID, Actor: d.By, Door: d.Door, Detail: detail})
	})
	if err != nil {
		return approvals.Request{}, "", fmt.Errorf("defer approval %s: %w", d.ID, err)
	}
	return r, outcome, nil
}
