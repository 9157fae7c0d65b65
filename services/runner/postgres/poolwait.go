package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// The run is locked, so that a commit which ends the wait comes before (then
// its version does not fit) or sees the row. A run that tries again keeps its
// place.
const awaitPool = `
INSERT INTO runner.pool_waits (run_id, namespace, pool, window_start, amount, seq, epoch)
SELECT run_id, namespace, $3, $4, $5, seq, claim_epoch FROM runner.runs
WHERE run_id = $1 AND seq = $2 AND claim_worker IS NULL FOR UPDATE
ON CONFLICT (run_id) DO UPDATE SET pool = excluded.pool, window_start = excluded.window_start, amount = excluded.amount,
    seq = excluded.seq, epoch = excluded.epoch, tried_at = clock_timestamp(), woken_at = NULL`

const leavePool = `DELETE FROM runner.pool_waits WHERE run_id = $1`

// Await implements runner.Store.
func (s *Store) Await(ctx context.Context, id events.RunID, seq int64, r runner.Reserved) error {
	tag, err := s.pool.Exec(ctx, awaitPool, string(id), seq, r.Refused, r.Window, r.Amount)
	if err != nil {
		return fmt.Errorf("queue run %s for pool %s: %w", id, r.Refused, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("queue run %s for pool %s: %w", id, r.Refused, runner.ErrVersionConflict)
	}
	return nil
}

// Woken are: the head of a queue as far as there is room for all of it; those
// that will never find room, so that they pause; all of a window that has
// passed. A new window is known when somebody tries, so the first of a queue
// tries every 30 s. A wake whose message was lost is repeated after 5 s.
const wakeWaits = `
UPDATE runner.pool_waits w SET woken_at = clock_timestamp(), wakes = wakes + 1
FROM (SELECT run_id FROM (
          SELECT f.run_id, f.tried_at, f.amount, p.used, p.ceiling,
                 f.place = min(f.place) OVER (PARTITION BY f.namespace, f.pool, f.window_start) AS head,
                 p.ceiling - p.used - p.reserved - sum(f.amount) OVER (PARTITION BY f.namespace, f.pool, f.window_start ORDER BY f.place) AS spare,
                 EXISTS (SELECT FROM runner.pools n WHERE n.namespace = p.namespace AND n.pool = p.pool AND n.window_start > p.window_start) AS passed
          FROM runner.pools p CROSS JOIN LATERAL (
              SELECT * FROM runner.pool_waits i
              WHERE i.namespace = p.namespace AND i.pool = p.pool AND i.window_start = p.window_start ORDER BY i.place LIMIT $1) f) q
      WHERE spare >= 0 OR used + amount > ceiling OR passed OR head AND tried_at < clock_timestamp() - interval '30 s') due, runner.runs r
WHERE w.run_id = due.run_id AND r.run_id = w.run_id AND (w.woken_at IS NULL OR w.woken_at < clock_timestamp() - interval '5 s')
RETURNING w.run_id, w.namespace, w.seq, w.epoch, w.place, w.wakes, r.name, r.priority`

// WakeWaits implements runner.Store.
func (s *Store) WakeWaits(ctx context.Context, limit int) ([]runner.PoolWait, error) {
	rows, err := s.pool.Query(ctx, wakeWaits, limit)
	if err != nil {
		return nil, fmt.Errorf("wake runs that wait for a pool: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[runner.PoolWait])
}
