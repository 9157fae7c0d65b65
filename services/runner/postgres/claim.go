package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const claimFree = `
UPDATE runner.runs SET claim_worker = $3, claim_epoch = claim_epoch + 1, claim_cause = $4, claim_at = clock_timestamp()
WHERE run_id = $1 AND seq = $2 AND claim_worker IS NULL AND min_reader <= $5
RETURNING claim_epoch`

// Claim implements runner.Store.
func (s *Store) Claim(ctx context.Context, id events.RunID, seq int64, worker, cause string) (int64, error) {
	var epoch int64
	err := s.keyed.One(ctx, claimFree, []any{string(id), seq, worker, cause, s.reader}, &epoch)
	return epoch, conflict(id, err)
}

// The statement that takes over judges by the database's clock alone: my heart
// beats now and has done so for two seconds, the owner's has been silent for
// more than 1.5 s (a stopped one's beat is -infinity, which no subtraction takes). A claim of my own process may move at once. Reservations of
// the abandoned epoch count as spent: what the lost call cost is unknown. Tool
// calls of an answer whose commit was lost have not begun. How long nobody had the
// run is kept for reports.
const takeOver = `
WITH moved AS (
    UPDATE runner.runs r SET
        claim_worker = nullif($5, ''), claim_epoch = r.claim_epoch + 1,
        claim_cause = CASE WHEN $5 <> '' THEN $6 END, claim_at = CASE WHEN $5 <> '' THEN clock_timestamp() END,
        attempts = r.attempts + CASE WHEN r.claim_worker = $4 THEN 0 ELSE 1 END
    FROM runner.workers me
    WHERE me.name = $4 AND me.beat > clock_timestamp() - interval '0.9 s'
      AND r.run_id = $1 AND r.claim_worker = $2 AND r.claim_epoch = $3 AND r.min_reader <= $7
      AND (r.claim_worker = $4
           OR me.fresh_since < clock_timestamp() - interval '2 s'
              AND NOT EXISTS (SELECT FROM runner.workers o WHERE o.name = r.claim_worker AND o.beat >= clock_timestamp() - interval '1.5 s'))
    RETURNING r.claim_epoch, r.attempts, r.namespace),
kept AS (
    INSERT INTO runner.takeovers (run_id, epoch, namespace, lost_worker, stopped, seen)
    SELECT $1, moved.claim_epoch, moved.namespace, $2, coalesce(o.beat = '-infinity', false), nullif(o.beat, '-infinity')
      FROM moved LEFT JOIN runner.workers o ON o.name = $2 WHERE $2 <> $4),
old AS (
    DELETE FROM runner.takeovers WHERE (run_id, epoch) IN
        (SELECT run_id, epoch FROM runner.takeovers WHERE at < (SELECT clock_timestamp()) - interval '90 days' ORDER BY at LIMIT 100)),
lost AS (
    DELETE FROM runner.reservations v USING moved WHERE v.run_id = $1 AND v.epoch <= $3
    RETURNING v.namespace, v.pool, v.window_start, v.amount),
spent AS (
    UPDATE runner.pools p SET used = p.used + CASE WHEN p.unit = 'toolCalls' THEN 0 ELSE l.amount END, reserved = p.reserved - l.amount
    FROM (SELECT namespace, pool, window_start, sum(amount) AS amount FROM lost GROUP BY 1, 2, 3) l
    WHERE (p.namespace, p.pool, p.window_start) = (l.namespace, l.pool, l.window_start))
SELECT claim_epoch, attempts FROM moved`

// TakeOver implements runner.Store.
func (s *Store) TakeOver(ctx context.Context, id events.RunID, old runner.Claim, taker, worker, cause string) (epoch int64, attempts int, err error) {
	err = s.pool.QueryRow(ctx, takeOver, string(id), old.Worker, old.Epoch, taker, worker, cause, s.reader).Scan(&epoch, &attempts)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, fmt.Errorf("run %s, claim of %s: %w", id, old.Worker, runner.ErrOwnerAlive)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("take over run %s: %w", id, err)
	}
	return epoch, attempts, nil
}

// A call that was begun and let go may still be billed: its reservation counts
// as spent.
const releaseClaim = `
WITH freed AS (
    UPDATE runner.runs SET claim_worker = NULL, claim_cause = NULL, claim_at = NULL, claim_epoch = claim_epoch + 1
    WHERE run_id = $1 AND claim_worker = $2 AND claim_epoch = $3
    RETURNING run_id),
lost AS (
    DELETE FROM runner.reservations v USING freed WHERE v.run_id = freed.run_id AND v.epoch <= $3
    RETURNING v.namespace, v.pool, v.window_start, v.amount)
UPDATE runner.pools p SET used = p.used + CASE WHEN p.unit = 'toolCalls' THEN 0 ELSE l.amount END, reserved = p.reserved - l.amount
FROM (SELECT namespace, pool, window_start, sum(amount) AS amount FROM lost GROUP BY 1, 2, 3) l
WHERE (p.namespace, p.pool, p.window_start) = (l.namespace, l.pool, l.window_start)`

// Release implements runner.Store.
func (s *Store) Release(ctx context.Context, id events.RunID, c runner.Claim) error {
	if _, err := s.pool.Exec(ctx, releaseClaim, string(id), c.Worker, c.Epoch); err != nil {
		return fmt.Errorf("release run %s: %w", id, err)
	}
	return nil
}
