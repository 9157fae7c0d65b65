package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/runner"
)

const keepPause = `
INSERT INTO runner.pool_pauses (run_id, namespace, pool, window_start, amount, unit, seq) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (run_id) DO UPDATE SET pool = excluded.pool, window_start = excluded.window_start, amount = excluded.amount, unit = excluded.unit,
    seq = excluded.seq, woken_at = NULL, wakes = 0`

const dropPause = `DELETE FROM runner.pool_pauses WHERE run_id = $1`

// movesPause reports whether the commit begins or ends a pause for a pool.
func movesPause(c runner.Commit) bool {
	return c.Refused != nil || pausedFor(c.Before) != "" && pausedFor(c.Before) != pausedFor(c.After)
}

func putPause(ctx context.Context, tx pgx.Tx, c runner.Commit) error {
	st := c.After
	if r := c.Refused; r != nil && pausedFor(st) != "" {
		_, err := tx.Exec(ctx, keepPause, string(st.RunID), st.Namespace, r.Refused, r.Window, r.Amount, r.Unit, st.Seq)
		return err
	}
	_, err := tx.Exec(ctx, dropPause, string(st.RunID))
	return err
}

// The pools that runs are paused for, one look into the index for each.
const pausedPools = `
WITH RECURSIVE p AS (
    (SELECT r.namespace, r.paused_for FROM runner.runs r
     WHERE r.paused_for <> '' AND (r.namespace, r.paused_for) > ($1, $2) ORDER BY r.namespace, r.paused_for LIMIT 1)
    UNION ALL
    SELECT n.namespace, n.paused_for FROM p CROSS JOIN LATERAL (
        SELECT r.namespace, r.paused_for FROM runner.runs r
        WHERE r.paused_for <> '' AND (r.namespace, r.paused_for) > (p.namespace, p.paused_for)
        ORDER BY r.namespace, r.paused_for LIMIT 1) n)
SELECT namespace, substr(paused_for, 6) FROM p WHERE starts_with(paused_for, 'pool:') LIMIT $3`

// PausedPools implements runner.Store.
func (s *Store) PausedPools(ctx context.Context, after runner.PausedPool, limit int) ([]runner.PausedPool, error) {
	rows, err := s.pool.Query(ctx, pausedPools, after.Namespace, "pool:"+after.Name, limit)
	if err != nil {
		return nil, fmt.Errorf("pools that runs are paused for: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[runner.PausedPool])
}

// Woken are those of the oldest whose need fits beside what is used, as far as
// there is room for all of them; of a pool that stops nobody any more ($5), all.
// Who was woken is not taken again for 5 s and counts until then. What a run needs in
// another unit, or was paused by a release that kept no note, is not known: it may try. Without a
// definition ($3 is NULL) the window is the one that refused.
const wakePaused = `
WITH fits AS (
    SELECT r.run_id, r.namespace, r.seq, p.window_start, p.unit, n.amount, f.seq AS paused_at, f.woken_at,
           $5 OR p.ceiling - p.used - p.reserved - sum(n.amount) OVER (ORDER BY r.run_id) >= 0 AS room
    FROM runner.runs r LEFT JOIN runner.pool_pauses f ON f.run_id = r.run_id
    JOIN runner.pools p ON p.namespace = r.namespace AND p.pool = $2 AND p.window_start = coalesce($3, f.window_start, 'all')
    CROSS JOIN LATERAL (SELECT CASE WHEN f.unit = p.unit THEN f.amount ELSE 1 END AS amount) n
    WHERE r.namespace = $1 AND r.paused_for = 'pool:' || $2 AND r.status = 'paused' AND ($5 OR n.amount <= p.ceiling - p.used)
    ORDER BY r.run_id LIMIT $4),
taken AS (
    INSERT INTO runner.pool_pauses AS w (run_id, namespace, pool, window_start, amount, unit, seq, woken_at, wakes)
    SELECT run_id, namespace, $2, window_start, amount, unit, coalesce(paused_at, seq), clock_timestamp(), 1 FROM fits
    WHERE room AND (woken_at IS NULL OR woken_at < clock_timestamp() - interval '5 s') ORDER BY run_id
    ON CONFLICT (run_id) DO UPDATE SET woken_at = clock_timestamp(), wakes = w.wakes + 1
    WHERE w.seq = excluded.seq AND (w.woken_at IS NULL OR w.woken_at < clock_timestamp() - interval '5 s')
    RETURNING run_id, wakes)
SELECT run_id, namespace, $2::text, seq, wakes FROM taken JOIN fits USING (run_id) ORDER BY run_id`

// WakePaused implements runner.Store. The pool's row follows the current limit
// before it is compared, so a limit that was lowered again wakes nobody.
func (s *Store) WakePaused(ctx context.Context, namespace string, p runner.Pool, limit int) (woken []runner.PoolPause, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var window *string
		anyway := false
		if p.Budget != nil {
			var now time.Time
			if err := tx.QueryRow(ctx, dbNow).Scan(&now); err != nil {
				return err
			}
			name := p.Window(now)
			window, anyway = &name, !p.Hard()
			if err := ensure(ctx, tx, namespace, name, p, now); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, wakePaused, namespace, p.Name, window, limit, anyway)
		if err != nil {
			return err
		}
		woken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (runner.PoolPause, error) {
			var w runner.PoolPause
			return w, row.Scan((*string)(&w.RunID), &w.Namespace, &w.Pool, &w.Seq, &w.Wakes)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("wake runs that are paused for pool %s: %w", p.Name, err)
	}
	return woken, nil
}
