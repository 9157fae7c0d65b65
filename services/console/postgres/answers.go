package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/services/console"
)

const (
	openByStatus = `
SELECT status, count(*), count(*) FILTER (WHERE claim_worker IS NOT NULL)
  FROM runner.v_runs WHERE namespace = $1 AND ended_at IS NULL
 GROUP BY status ORDER BY status LIMIT 20`
	startsUntaken = `
SELECT count(*) FROM trigger.v_deliveries d
 WHERE d.namespace = $1 AND d.landed_at IS NULL
   AND NOT EXISTS (SELECT FROM runner.v_runs x WHERE x.run_id = d.run_id COLLATE "default")
   AND NOT EXISTS (SELECT FROM runner.v_deleted x WHERE x.run_id = d.run_id COLLATE "default")`
	approvalsOpen = `SELECT count(*), min(expires_at) FROM approvals.v_requests WHERE namespace = $1 AND state = 'pending'`
	effectsSince  = `SELECT state, count(*) FROM tools.v_effects WHERE namespace = $1 AND created_at >= $2 GROUP BY state ORDER BY state LIMIT 20`
	effectsUnsure = `SELECT count(*) FROM tools.v_effects WHERE namespace = $1 AND state = 'unknown' AND settled_by IS NULL`
	// What was spent is kept by the hour, and since is the beginning of one.
	costSince = `
SELECT (SELECT count(*) FROM runner.v_runs WHERE namespace = $1 AND accepted_at >= $2),
       (SELECT least(coalesce(sum(cost_micro_usd), 0), 9223372036854775807)::bigint FROM runner.v_spend WHERE namespace = $1 AND hour >= $2)`
	stopsStanding = `SELECT count(*) FROM tools.v_stops WHERE namespace = $1 AND ended_at IS NULL`
)

// Answers implements console.AnswersReader, in one round trip.
func (s *Store) Answers(ctx context.Context, namespace string, since time.Time) (console.Answers, error) {
	out := console.Answers{Open: map[string]int{}, Effects: map[string]int{}, Since: since}
	b := &pgx.Batch{}
	b.Queue(openByStatus, namespace).Query(func(rows pgx.Rows) error {
		var status string
		var n, asking int
		_, err := pgx.ForEachRow(rows, []any{&status, &n, &asking}, func() error {
			out.Open[status], out.Asking = n, out.Asking+asking
			return nil
		})
		return err
	})
	b.Queue(startsUntaken, namespace).QueryRow(func(row pgx.Row) error {
		var n int
		err := row.Scan(&n)
		out.Open["queued"] += n
		return err
	})
	b.Queue(approvalsOpen, namespace).QueryRow(func(row pgx.Row) error {
		var first *time.Time
		err := row.Scan(&out.Approvals, &first)
		out.NextExpiry = orZero(first)
		return err
	})
	b.Queue(effectsSince, namespace, since).Query(func(rows pgx.Rows) error {
		var state string
		var n int
		_, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error {
			out.Effects[state] = n
			return nil
		})
		return err
	})
	b.Queue(effectsUnsure, namespace).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Doubts) })
	b.Queue(stopsStanding, namespace).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Stops) })
	b.Queue(costSince, namespace, since).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Runs, &out.Cost) })
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return out, fmt.Errorf("count what there is: %w", err)
	}
	return out, nil
}

// clocksApart is how far the clock of who makes an id may be from the database's.
const clocksApart = time.Hour

// idAfter is after the id of every run that was accepted until then. The id of a
// child has the time of its parent's, so it is never later than its acceptance.
func idAfter(until time.Time) string {
	hex := fmt.Sprintf("%012x", max(until.Add(clocksApart).UnixMilli(), 0))
	return hex[:8] + "-" + hex[8:]
}
