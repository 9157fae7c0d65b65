package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const poolPauses = `
SELECT substr(paused_for, 6), count(*), min(updated_at), min(run_id) FROM runner.v_health
 WHERE namespace = $1 AND status = $2 AND paused_for LIKE 'pool:%' GROUP BY 1 ORDER BY 1 LIMIT 1000`

// PoolPauses implements console.OperationReader.
func (s *Store) PoolPauses(ctx context.Context, namespace string) (map[string]console.PoolPause, error) {
	out := map[string]console.PoolPause{}
	var name, oldest string
	var p console.PoolPause
	rows, err := s.pool.Query(ctx, poolPauses, namespace, events.StatusPaused)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &p.Runs, &p.Since, &oldest}, func() error {
			out[name] = console.PoolPause{Runs: p.Runs, Since: p.Since.UTC(), Oldest: events.RunID(oldest)}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read which runs wait for shared budgets: %w", err)
	}
	return out, nil
}

const rejections = `
SELECT service, code, count(*), min(at), max(at) FROM (
	SELECT 'runner' AS service, code, at FROM runner.v_rejected WHERE at > clock_timestamp() - interval '7 days' UNION ALL
	SELECT 'tools', code, at FROM tools.v_rejected WHERE at > clock_timestamp() - interval '7 days' UNION ALL
	SELECT 'approvals', code, at FROM approvals.v_rejected WHERE at > clock_timestamp() - interval '7 days' UNION ALL
	SELECT 'trigger', code, at FROM trigger.v_rejected WHERE at > clock_timestamp() - interval '7 days') rejected
 GROUP BY service, code ORDER BY max(at) DESC, service, code LIMIT $1`

// Rejections implements console.OperationReader.
func (s *Store) Rejections(ctx context.Context, limit int) ([]console.Rejection, error) {
	rows, err := s.pool.Query(ctx, rejections, limit)
	if err != nil {
		return nil, fmt.Errorf("read what was rejected: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r console.Rejection, err error) {
		err = row.Scan(&r.Service, &r.Code, &r.Count, &r.First, &r.Last)
		r.First, r.Last = r.First.UTC(), r.Last.UTC()
		return r, err
	})
}

const lostNotices = `
SELECT notice_id, channel, reason, state, coalesce(problem, ''), coalesce(run_id, ''), created_at FROM approvals.v_notices
 WHERE namespace = $1 AND state IN ('failed', 'unknown') AND created_at > $2 ORDER BY created_at DESC, notice_id LIMIT $3`

// LostNotices implements console.OperationReader.
func (s *Store) LostNotices(ctx context.Context, namespace string, limit int) ([]console.LostNotice, error) {
	rows, err := s.pool.Query(ctx, lostNotices, namespace, time.Now().Add(-7*24*time.Hour), limit)
	if err != nil {
		return nil, fmt.Errorf("read notices that did not arrive: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (n console.LostNotice, err error) {
		err = row.Scan(&n.ID, &n.Channel, &n.Reason, &n.State, &n.Problem, &n.RunID, &n.CreatedAt)
		n.CreatedAt = n.CreatedAt.UTC()
		return n, err
	})
}
