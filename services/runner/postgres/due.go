package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Replicas share the work by SKIP LOCKED; a taken timer is hidden for 30 s, so
// a lost message is repeated. Only a commit of the run deletes the row.
const takeTimers = `
UPDATE runner.timers t SET next_try = clock_timestamp() + interval '30 s', tries = tries + 1
FROM (SELECT run_id, timer FROM runner.timers WHERE next_try <= (SELECT clock_timestamp())
      ORDER BY next_try LIMIT $1 FOR UPDATE SKIP LOCKED) due
WHERE t.run_id = due.run_id AND t.timer = due.timer
RETURNING t.run_id, t.timer, t.due, t.tries`

const nextTimer = `SELECT extract(epoch FROM min(next_try) - clock_timestamp())::float8 FROM runner.timers`

// Stalled implements runner.Store. It reads the open runs.
func (s *Store) Stalled(ctx context.Context) (still, unasked time.Duration, err error) {
	var seconds, waited float64
	err = s.pool.QueryRow(ctx, `
SELECT greatest(0, coalesce(extract(epoch FROM clock_timestamp() - min(r.updated_at) FILTER (WHERE r.status = 'running')), 0))::float8,
       greatest(0, coalesce(extract(epoch FROM clock_timestamp() - min(p.since) FILTER (WHERE r.claim_worker IS NULL AND w.run_id IS NULL)), 0))::float8
  FROM runner.runs r LEFT JOIN runner.pending p ON p.run_id = r.run_id AND p.item = 'model' LEFT JOIN runner.pool_waits w ON w.run_id = r.run_id
 WHERE r.ended_at IS NULL AND r.status NOT IN ('paused', 'needs_attention', 'waiting')`).Scan(&seconds, &waited)
	if err != nil {
		return 0, 0, fmt.Errorf("oldest running run: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), time.Duration(waited * float64(time.Second)), nil
}

// DueTimers implements runner.Store. next is how long until another falls due,
// at most a second.
func (s *Store) DueTimers(ctx context.Context, limit int) ([]runner.DueTimer, time.Duration, error) {
	rows, err := s.pool.Query(ctx, takeTimers, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("take due timers: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (runner.DueTimer, error) {
		var d runner.DueTimer
		err := row.Scan(&d.RunID, &d.Timer.Name, &d.Timer.Due, &d.Try)
		return d, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("take due timers: %w", err)
	}
	var seconds *float64
	if err := s.pool.QueryRow(ctx, nextTimer).Scan(&seconds); err != nil {
		return due, 0, fmt.Errorf("next timer: %w", err)
	}
	next := time.Second
	if seconds != nil {
		next = min(next, max(0, time.Duration(*seconds*float64(time.Second))))
	}
	return due, next, nil
}

// A model call that a living worker is making is not asked about.
const takeNudges = `
UPDATE runner.pending p SET nudges = nudges + 1,
    next_nudge = clock_timestamp() + least(interval '30 s' * power(2, least(nudges, 7)), interval '1 h')
FROM (SELECT run_id, item FROM runner.pending d WHERE next_nudge <= (SELECT clock_timestamp())
        AND NOT (kind = 'model' AND EXISTS (SELECT FROM runner.runs r JOIN runner.workers w ON w.name = r.claim_worker
            WHERE r.run_id = d.run_id AND w.beat >= clock_timestamp() - interval '1.5 s'))
      ORDER BY next_nudge LIMIT $1 FOR UPDATE SKIP LOCKED) due
WHERE p.run_id = due.run_id AND p.item = due.item
RETURNING p.run_id, p.namespace, p.item, p.nudges, p.since`

// DueNudges implements runner.Store.
func (s *Store) DueNudges(ctx context.Context, limit int) ([]runner.DueNudge, error) {
	rows, err := s.pool.Query(ctx, takeNudges, limit)
	if err != nil {
		return nil, fmt.Errorf("take due nudges: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (runner.DueNudge, error) {
		var d runner.DueNudge
		err := row.Scan(&d.RunID, &d.Namespace, &d.Item, &d.Try, &d.Since)
		return d, err
	})
}

const reject = `INSERT INTO runner.rejected (subject, cause, code, detail, body) VALUES ($1, $2, $3, $4, $5)`

// Reject implements runner.Store.
func (s *Store) Reject(ctx context.Context, m events.Received, code, detail string) error {
	if _, err := s.pool.Exec(ctx, reject, m.Subject, m.ID, code, detail, []byte(m.Data)); err != nil {
		return fmt.Errorf("keep rejected message %s: %w", m.ID, err)
	}
	return nil
}
