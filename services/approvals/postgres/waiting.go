package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/services/approvals"
)

// waitingSQL reads the index of what may expire, which holds what is pending, and that
// of what is owed to the runner.
const waitingSQL = `
SELECT w.n, w.age, o.n, o.age FROM
	(SELECT count(*) AS n, coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS age
	FROM approvals.requests WHERE state = 'pending' AND asked_at IS NOT NULL) w,
	(SELECT count(*) AS n, coalesce(extract(epoch FROM clock_timestamp() - min(decided_at)), 0)::float8 AS age
	FROM approvals.requests WHERE next_announce_at IS NOT NULL) o`

// Waiting implements approvals.Reader.
func (s *Store) Waiting(ctx context.Context) (w approvals.Waiting, err error) {
	var asked, ended float64
	if err := s.pool.QueryRow(ctx, waitingSQL).Scan(&w.Requests, &asked, &w.Untaken, &ended); err != nil {
		return w, fmt.Errorf("count what waits for a person: %w", err)
	}
	w.Oldest, w.Since = time.Duration(asked*float64(time.Second)), time.Duration(ended*float64(time.Second))
	return w, nil
}
