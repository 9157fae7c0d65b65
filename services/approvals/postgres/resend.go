package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Resender = (*Store)(nil)

// The row is locked, so of two who ask at once the second finds it due.
const resendSQL = `
UPDATE approvals.notices n SET state = 'due', next_at = clock_timestamp(), problem = $3
WHERE namespace = $1 AND notice_id = $2 AND (state = 'failed' OR state = 'unknown' AND $4)
RETURNING ` + noticeColumns

const oneNoticeSQL = `SELECT ` + noticeColumns + ` FROM approvals.notices n WHERE namespace = $1 AND notice_id = $2`

// Resend implements approvals.Resender.
func (s *Store) Resend(ctx context.Context, r approvals.Resend) (n approvals.Notice, changed bool, err error) {
	n, err = s.oneNotice(ctx, resendSQL, r.Namespace, string(r.NoticeID), text("sent again by "+r.By), r.MayDouble)
	if !errors.Is(err, pgx.ErrNoRows) {
		return n, err == nil, err
	}
	n, err = s.oneNotice(ctx, oneNoticeSQL, r.Namespace, string(r.NoticeID))
	if errors.Is(err, pgx.ErrNoRows) {
		err = approvals.ErrNotFound
	}
	return n, false, err
}

func (s *Store) oneNotice(ctx context.Context, sql string, args ...any) (approvals.Notice, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return approvals.Notice{}, err
	}
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (approvals.Notice, error) { return scanNotice(row, false) })
}
