package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/services/approvals"
)

// waitingSQL reads the index of what may expire, which holds what is pending.
const waitingSQL = `
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8
FROM approvals.requests WHERE state = 'pending' AND asked_at IS NOT NULL`

// Waiting implements approvals.Reader.
func (s *Store) Waiting(ctx context.Context) (w approvals.Waiting, err error) {
	var seconds float64
	if err := s.pool.QueryRow(ctx, waitingSQL).Scan(&w.Requests, &seconds); err != nil {
		return w, fmt.Errorf("count what waits for a person: %w", err)
	}
	w.Oldest = time.Duration(seconds * float64(time.Second))
	return w, nil
}
