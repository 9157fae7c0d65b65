package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var _ approvals.Digests = (*Store)(nil)

// Now implements approvals.Digests.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.pool.QueryRow(ctx, clockSQL).Scan(&now)
	return now, err
}

// digestSQL stores one day's digest: what waits in the namespace, the largest groups
// first. When nothing waits nobody is told of it, and later that day nobody either.
const digestSQL = `
WITH grouped AS (
	SELECT agent, tool, count(*) AS n, min(created_at) AS oldest, min(expires_at) AS next
	FROM approvals.requests WHERE ` + waits + ` GROUP BY agent, tool),
largest AS (SELECT * FROM grouped ORDER BY n DESC, agent, tool LIMIT 15),
whole AS (SELECT coalesce(sum(n), 0)::bigint AS n FROM grouped)
INSERT INTO approvals.notices (notice_id, namespace, channel, reason, body, state, next_at)
SELECT $2, $1, $3, 'digest',
	json_build_object('notice_id', $2::text, 'namespace', $1::text, 'channel', $3::text, 'reason', 'digest', 'at', clock_timestamp(),
		'waiting', json_build_object('count', n, 'groups', (SELECT coalesce(json_agg(json_build_object(
			'agent', agent, 'tool', tool, 'count', l.n, 'oldest', oldest, 'next_expiry', next) ORDER BY l.n DESC, agent, tool), '[]') FROM largest l))),
	CASE WHEN n > 0 THEN 'due' ELSE 'gone' END, CASE WHEN n > 0 THEN clock_timestamp() END
FROM whole
ON CONFLICT (notice_id) DO NOTHING
RETURNING state = 'due'`

// Digest implements approvals.Digests.
func (s *Store) Digest(ctx context.Context, id events.NoticeID, namespace, channel string) (told bool, err error) {
	err = s.pool.QueryRow(ctx, digestSQL, namespace, string(id), channel).Scan(&told)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // given before
	}
	return told, err
}
