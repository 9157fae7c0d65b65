package postgres

import (
	"context"
	"fmt"
	"time"
)

const clock = `SELECT clock_timestamp()`

// Now implements runner.Clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if err = s.pool.QueryRow(ctx, clock).Scan(&now); err != nil {
		return now, fmt.Errorf("read the clock: %w", err)
	}
	return now, nil
}
