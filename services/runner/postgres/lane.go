package postgres

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// An agent keeps the lane that it used in the last hour; another one gets the lane
// that the fewest agents use. The row decides, so that every process says the same.
const takeLane = `
INSERT INTO runner.lanes AS l (namespace, name, lane)
SELECT $1, $2, (
    SELECT n FROM generate_series(0, $3::int - 1) n
    LEFT JOIN runner.lanes o ON o.lane = n AND o.used_at > clock_timestamp() - interval '1 h'
    GROUP BY n ORDER BY count(o.name), n LIMIT 1)
ON CONFLICT (namespace, name) DO UPDATE SET used_at = clock_timestamp(),
    lane = CASE WHEN l.used_at > clock_timestamp() - interval '1 h' THEN l.lane ELSE excluded.lane END
RETURNING lane`

// Lane implements runner.Store.
func (s *Store) Lane(ctx context.Context, namespace, name string) (lane int, err error) {
	if err := s.pool.QueryRow(ctx, takeLane, namespace, name, events.StepLanes).Scan(&lane); err != nil {
		return 0, fmt.Errorf("lane of agent %s: %w", name, err)
	}
	return lane, nil
}
