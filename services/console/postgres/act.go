package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

// What came through links and from Slack is in the audit of approvals alone. Each half
// is limited by itself, so that a page costs what it shows.
const listActs = `
SELECT * FROM (
	(SELECT id, at, service, actor, role, token_id, session_id, door, action, target, reason, request_id, coalesce(status, 0) AS status,
		CASE WHEN status IS NULL THEN 'unknown' WHEN status < 400 THEN 'done' WHEN status < 500 THEN 'refused' ELSE 'failed' END AS outcome, ended_at
	FROM console.audit
	WHERE namespace = $1 AND ($2 = '' OR actor = $2) AND ($3 = '' OR action ILIKE $3) AND ($4 = '' OR target ILIKE $4) AND ($5 = '' OR door = $5)
		AND at >= $7 AND at < $8 AND ($9::text IS NULL OR (at, id) < ($10, $9))
		AND ($6 = '' OR $6 = CASE WHEN status IS NULL THEN 'unknown' WHEN status < 400 THEN 'done' WHEN status < 500 THEN 'refused' ELSE 'failed' END)
	ORDER BY at DESC, id DESC LIMIT $11)
	UNION ALL
	(SELECT id, at, 'approvals', actor, '', '', '', door, kind || CASE WHEN decision = '' THEN '' ELSE ' ' || decision END, approval_id, comment, '', 0,
		CASE WHEN kind = 'attempted' THEN 'refused' ELSE 'done' END AS outcome, at
	FROM approvals.v_audit
	WHERE namespace = $1 AND ($2 = '' OR actor = $2) AND ($3 = '' OR kind || ' ' || decision ILIKE $3) AND ($4 = '' OR approval_id ILIKE $4) AND ($5 = '' OR door = $5)
		AND at >= $7 AND at < $8 AND ($9::text IS NULL OR (at, id) < ($10, $9))
		AND ($6 = '' OR $6 = CASE WHEN kind = 'attempted' THEN 'refused' ELSE 'done' END)
	ORDER BY at DESC, id DESC LIMIT $11)
) a ORDER BY at DESC, id DESC LIMIT $11`

// Acts implements console.ActReader.
func (s *Store) Acts(ctx context.Context, f console.ActFilter) ([]console.Act, error) {
	since, until := f.Since, f.Until
	if until.IsZero() {
		until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if since.IsZero() {
		since = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	var id *string
	var at *time.Time
	if f.Before != nil {
		id, at = &f.Before.ID, &f.Before.At
	}
	rows, err := s.pool.Query(ctx, listActs, f.Namespace, f.Actor, part(f.Action), part(f.Target), f.Door, f.Outcome, since, until, id, at, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (console.Act, error) {
		var a console.Act
		var ended *time.Time
		err := row.Scan(&a.ID, &a.At, &a.Service, &a.Actor, &a.Role, &a.TokenID, &a.SessionID, &a.Door, &a.Action, &a.Target, &a.Reason, &a.RequestID, &a.Status, &a.Outcome, &ended)
		a.At, a.EndedAt = a.At.UTC(), orZero(ended)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	return out, nil
}

// part is the pattern of texts that have s in them; empty stays so.
func part(s string) string {
	if s == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s) + "%"
}

const sweepAudit = `SELECT console.audit_sweep(make_interval(secs => $1), 1000)`

// SweepAudit deletes what the audit has kept for longer than keep, some at a time; more
// says that there is more.
func (s *Store) SweepAudit(ctx context.Context, keep time.Duration) (more bool, err error) {
	var n int
	if err := s.pool.QueryRow(ctx, sweepAudit, keep.Seconds()).Scan(&n); err != nil {
		return false, fmt.Errorf("take old rows out of the audit: %w", err)
	}
	return n == 1000, nil
}
