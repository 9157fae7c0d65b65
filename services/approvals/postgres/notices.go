package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Notices = (*Store)(nil)

const noticeSQL = `
INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, body)
VALUES ($1, $2, $3, $4, $5, $6::text::json) ON CONFLICT (notice_id) DO NOTHING`

// Notice implements approvals.Inbox.
func (s *Store) Notice(ctx context.Context, n events.Notice) error {
	body, err := events.Marshal(n)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, noticeSQL, string(n.NoticeID), n.Namespace, n.Channel, n.Reason, string(n.RunID), string(body))
	return unstorable(err)
}

const noticeColumns = `body::text, n.notice_id, state, attempts, n.created_at, next_at, delivered_at, problem, person, receipt, updates`

// The attempt is committed before anything is sent. What was already under way
// when its time came is lost: nobody reported it.
const takeNoticesSQL = `
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
	SELECT notice_id, state = 'sending' AS lost FROM approvals.notices
	WHERE next_at <= (SELECT now FROM t) ORDER BY next_at LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE approvals.notices n SET
	state = 'sending', attempts = n.attempts + 1, next_at = t.now + $2::bigint * interval '1 millisecond'
FROM due, t WHERE n.notice_id = due.notice_id
RETURNING ` + noticeColumns + `, due.lost`

// Take implements approvals.Notices.
func (s *Store) Take(ctx context.Context, limit int, lease time.Duration) ([]approvals.Notice, error) {
	if limit <= 0 {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, takeNoticesSQL, limit, lease.Milliseconds())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (approvals.Notice, error) { return scanNotice(row, true) })
}

func scanNotice(row pgx.CollectableRow, taken bool) (n approvals.Notice, err error) {
	var body string
	var id events.NoticeID
	var next, delivered *time.Time
	to := []any{&body, &id, &n.State, &n.Attempts, &n.CreatedAt, &next, &delivered, &n.Problem, &n.Person, &n.Receipt, &n.Updates}
	if taken {
		to = append(to, &n.Lost)
	}
	if err := row.Scan(to...); err != nil {
		return n, err
	}
	n.CreatedAt, n.NextAt, n.DeliveredAt = n.CreatedAt.UTC(), utc(next), utc(delivered)
	if err := json.Unmarshal([]byte(body), &n.Notice); err != nil {
		return n, fmt.Errorf("notice %s: %w", id, err)
	}
	n.NoticeID = id // that of a person's is not the body's
	return n, nil
}

const finishNoticeSQL = `
UPDATE approvals.notices SET
	state = $3::text, problem = $4,
	next_at = CASE WHEN $3::text = 'due' THEN clock_timestamp() + $5::bigint * interval '1 millisecond' END,
	delivered_at = CASE WHEN $3::text = 'delivered' THEN clock_timestamp() END,
	receipt = $6::text, next_update_at = CASE WHEN $3::text = 'delivered' AND $6::text <> '' THEN clock_timestamp() END
WHERE notice_id = $1 AND attempts = $2 AND state = 'sending'`

// Finish implements approvals.Notices.
func (s *Store) Finish(ctx context.Context, id events.NoticeID, n int, r approvals.Result, d approvals.Delivery) error {
	_, err := s.pool.Exec(ctx, finishNoticeSQL, string(id), n, r.State, text(d.Problem), r.Wait.Milliseconds(), text(d.Receipt))
	return err
}

const listNoticesSQL = `SELECT ` + noticeColumns + ` FROM approvals.notices n
WHERE namespace = $1 AND ($2 = '' OR state = $2) AND ($3 = '' OR run_id = $3) AND ($4 = '' OR channel = $4)
	AND (created_at, notice_id) < ($5, $6)
ORDER BY created_at DESC, notice_id DESC LIMIT $7`

// Notices implements approvals.Reader.
func (s *Store) Notices(ctx context.Context, f approvals.NoticeFilter) ([]approvals.Notice, error) {
	before := approvals.NoticePosition{CreatedAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if f.Before != nil {
		before = *f.Before
	}
	rows, err := s.pool.Query(ctx, listNoticesSQL, f.Namespace, f.State, string(f.RunID), f.Channel, before.CreatedAt, string(before.ID), f.Limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (approvals.Notice, error) { return scanNotice(row, false) })
}
