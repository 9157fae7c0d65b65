package postgres

import (
	"context"
	"fmt"
	"time"
)

// Replicas sweep at the same time; each takes other rows.
const sweepStarts = `
DELETE FROM trigger.deliveries
WHERE run_id IN (
	SELECT run_id FROM trigger.deliveries
	WHERE forgotten_at < (SELECT clock_timestamp()) - $1::interval
	ORDER BY forgotten_at
	LIMIT $2
	FOR UPDATE SKIP LOCKED)`

// SweepStarts implements trigger.Deliveries.
func (s *Store) SweepStarts(ctx context.Context, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, sweepStarts, age, limit)
	if err != nil {
		return 0, fmt.Errorf("sweep starts of deleted runs: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
