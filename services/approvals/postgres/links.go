package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Links = (*Store)(nil)

const addLinkSQL = `
INSERT INTO approvals.links (token_sha256, namespace, approval_id, channel, person, purpose, expires_at)
VALUES ($1, $2, $3, $4, $5, 'decide', $6)`

// AddLink implements approvals.Links.
func (s *Store) AddLink(ctx context.Context, hash [32]byte, l approvals.Link) error {
	_, err := s.pool.Exec(ctx, addLinkSQL, hash[:], l.Namespace, string(l.ApprovalID), l.Channel, l.Person, l.ExpiresAt)
	return err
}

const linkSQL = `
SELECT namespace, approval_id, channel, person, expires_at FROM approvals.links
WHERE token_sha256 = $1 AND purpose = 'decide' AND expires_at > clock_timestamp()`

// Link implements approvals.Links.
func (s *Store) Link(ctx context.Context, hash [32]byte) (l approvals.Link, err error) {
	err = s.pool.QueryRow(ctx, linkSQL, hash[:]).Scan(&l.Namespace, &l.ApprovalID, &l.Channel, &l.Person, &l.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		err = approvals.ErrNotFound
	}
	return l, err
}

// A notice to a channel becomes the first person's, and the others get theirs;
// again it changes nothing.
const splitSQL = `
WITH mine AS (
	UPDATE approvals.notices SET person = ($3::text[])[1]
	WHERE notice_id = $1 AND attempts = $2 AND state = 'sending' AND person = ''
	RETURNING notice_id, namespace, channel, reason, run_id, approval_id, body, created_at)
INSERT INTO approvals.notices (notice_id, namespace, channel, reason, run_id, approval_id, body, created_at, person)
SELECT mine.notice_id || '-' || p.n, namespace, channel, reason, run_id, approval_id, body, created_at, p.person
FROM mine, unnest(($3::text[])[2:]) WITH ORDINALITY AS p(person, n)
ON CONFLICT DO NOTHING`

// Split implements approvals.Notices.
func (s *Store) Split(ctx context.Context, id events.NoticeID, n int, people []string) error {
	_, err := s.pool.Exec(ctx, splitSQL, string(id), n, people)
	return err
}

// The next attempt is booked with this one: 10 s later, then 20 s, doubling to an
// hour.
const takeUpdatesSQL = `
WITH due AS MATERIALIZED (
	SELECT n.notice_id FROM approvals.notices n JOIN approvals.requests r ON r.approval_id = n.approval_id
	WHERE n.next_update_at <= (SELECT clock_timestamp()) AND r.state <> 'pending'
	ORDER BY n.next_update_at LIMIT $1 FOR UPDATE OF n SKIP LOCKED)
UPDATE approvals.notices n SET updates = n.updates + 1,
	next_update_at = clock_timestamp() + LEAST(interval '1 hour', interval '10 s' * power(2, LEAST(n.updates, 10)))
FROM due WHERE n.notice_id = due.notice_id
RETURNING ` + noticeColumns

// TakeUpdates implements approvals.Notices.
func (s *Store) TakeUpdates(ctx context.Context, limit int) ([]approvals.Notice, error) {
	rows, err := s.pool.Query(ctx, takeUpdatesSQL, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (approvals.Notice, error) { return scanNotice(row, false) })
}

const finishUpdateSQL = `UPDATE approvals.notices SET next_update_at = NULL WHERE notice_id = $1`

// FinishUpdate implements approvals.Notices.
func (s *Store) FinishUpdate(ctx context.Context, id events.NoticeID) error {
	_, err := s.pool.Exec(ctx, finishUpdateSQL, string(id))
	return err
}
