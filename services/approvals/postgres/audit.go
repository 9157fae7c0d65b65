package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Auditor = (*Store)(nil)

const auditSQL = `SELECT approvals.audit_append($1, $2, $3, $4, $5, $6, $7, $8)`

// audit adds an entry in the transaction of db. It locks the end of the namespace's
// chain until that ends: call it last.
func audit(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, e approvals.AuditEntry) error {
	detail := "{}"
	if e.Detail != nil {
		raw, err := events.Marshal(e.Detail)
		if err != nil {
			return err
		}
		detail = string(raw)
	}
	_, err := db.Exec(ctx, auditSQL, e.Namespace, e.Kind, string(e.ApprovalID), string(e.RunID), text(e.Actor), text(e.Door), text(detail), e.Once)
	return err
}

// Append implements approvals.Auditor.
func (s *Store) Append(ctx context.Context, e approvals.AuditEntry) error {
	return audit(ctx, s.pool, e)
}

// What is there already is not asked of the chain's end: a list that is read again costs
// one look in an index for each row.
const shownSQL = `
SELECT approvals.audit_append($1, $2, s.id, s.run, $3, $4, s.detail, true) FROM unnest($5::text[], $6::text[], $7::text[]) AS s (id, run, detail)`

// Shown implements approvals.Auditor.
func (s *Store) Shown(ctx context.Context, namespace, by, door string, shown []approvals.Request) error {
	ids, runs, details := make([]string, 0, len(shown)), make([]string, 0, len(shown)), make([]string, 0, len(shown))
	for _, r := range shown {
		raw, err := events.Marshal(map[string]any{"state": r.State, "digest": r.Digest})
		if err != nil {
			return err
		}
		ids, runs, details = append(ids, string(r.ID)), append(runs, string(r.RunID)), append(details, string(raw))
	}
	_, err := s.pool.Exec(ctx, shownSQL, namespace, approvals.AuditShown, text(by), text(door), ids, runs, details)
	return err
}

// followSQL looks at approved calls whose outcome the audit does not have. A yes that
// is an hour past its time is begun by nobody. A call that stays unknown may be
// settled later.
const followSQL = `
WITH due AS (
	SELECT r.approval_id AS id, c.status, r.dispatched AS was_dispatched, r.outcome AS was,
		c.effect_id IS NOT NULL OR c.status IN ('succeeded', 'failed', 'unknown') AS begun,
		json_build_object('call_id', r.call_id, 'key', c.key, 'effect_id', c.effect_id, 'at', c.created_at)::text AS dispatch,
		json_build_object('call_id', r.call_id, 'key', c.key, 'status', c.status, 'error', c.error ->> 'code', 'settled_by', c.settled_by, 'at', c.updated_at)::text AS ended
	FROM approvals.requests r JOIN tools.v_calls c ON c.call_id = r.call_id
	WHERE r.state = 'approved' AND r.outcome IN ('', 'unknown') AND r.unused_at IS NULL
		AND r.decided_at > (SELECT clock_timestamp()) - interval '30 days'
		AND (r.dispatched OR r.valid_until > (SELECT clock_timestamp()) - interval '1 hour')
		AND (c.status <> 'open' AND c.status <> r.outcome OR NOT r.dispatched AND c.effect_id IS NOT NULL)
	ORDER BY r.namespace, r.decided_at LIMIT $1 FOR UPDATE OF r SKIP LOCKED),
noted AS (
	UPDATE approvals.requests r SET dispatched = r.dispatched OR due.begun, outcome = CASE due.status WHEN 'open' THEN r.outcome ELSE due.status END
	FROM due WHERE r.approval_id = due.id
	RETURNING r.namespace, r.run_id, due.*)
SELECT CASE WHEN begun AND NOT was_dispatched THEN approvals.audit_append(namespace, 'dispatched', id, run_id, '', 'tools', dispatch) END,
	CASE WHEN status <> 'open' AND status <> was THEN approvals.audit_append(namespace, 'outcome', id, run_id, '', 'tools', ended) END
FROM (SELECT * FROM noted ORDER BY namespace, id) n`

// Follow implements approvals.Auditor.
func (s *Store) Follow(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, followSQL, limit)
	return int(tag.RowsAffected()), err
}

const auditRowsSQL = `
SELECT namespace, seq, at, kind, approval_id, run_id, actor, door, detail, prev, hash FROM approvals.audit
WHERE namespace = $1 AND seq > $2 AND ($3 = '' OR approval_id = $3) AND ($4 = '' OR run_id = $4) AND at >= $5
ORDER BY seq LIMIT $6`

const auditHeadSQL = `SELECT seq, hash FROM approvals.audit_heads WHERE namespace = $1`

// Rows implements approvals.Auditor.
func (s *Store) Rows(ctx context.Context, f approvals.AuditFilter) (out []approvals.AuditRow, head approvals.AuditHead, err error) {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, head, fmt.Errorf("read the audit: %w", err)
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(undo) // nothing was written
	}()
	if err := tx.QueryRow(ctx, auditHeadSQL, f.Namespace).Scan(&head.Seq, &head.Hash); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, head, fmt.Errorf("read the end of the audit: %w", err)
	}
	since := f.Since
	if since.IsZero() {
		since = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	rows, err := tx.Query(ctx, auditRowsSQL, f.Namespace, f.After, string(f.ApprovalID), string(f.RunID), since, f.Limit)
	if err != nil {
		return nil, head, fmt.Errorf("read the audit: %w", err)
	}
	out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[approvals.AuditRow])
	if err != nil {
		return nil, head, fmt.Errorf("read the audit: %w", err)
	}
	return out, head, nil
}
