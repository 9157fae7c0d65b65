package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// What a single run's sentence is made from, for the runs of a list. Children are
// counted: a flow may have a thousand of them.
const (
	pendingOfRuns = `
SELECT p.run_id, x.item, x.kind, x.state, x.since, x.detail, coalesce(x.pool, ''),
       CASE WHEN x.kind = 'tool' THEN (SELECT b.next_attempt_at FROM tools.v_probes b WHERE b.call_id = substr(x.item, 6)) END,
       CASE WHEN x.kind = 'tool' THEN (SELECT a.reply_until FROM tools.v_awaited a WHERE a.call_id = substr(x.item, 6)) END,
       c.call_id IS NOT NULL,
       CASE WHEN x.kind <> 'tool' THEN '' WHEN c.call_id IS NOT NULL THEN c.pool ELSE coalesce((
           SELECT v.body->'spec'->>'pool'
             FROM runner.v_events s, json_array_elements(s.data->'tools') t, catalog.v_versions v
            WHERE s.run_id = x.run_id AND s.namespace = $2 AND s.seq = 1 AND t->>'name' = x.detail #>> '{}'
              AND v.namespace = $2 AND v.kind = 'tool' AND v.name = t->>'name' AND v.digest = t->>'digest'), '') END
  FROM unnest($1::text[]) AS p(run_id)
 CROSS JOIN LATERAL (SELECT * FROM runner.v_pending y WHERE y.run_id = p.run_id AND y.namespace = $2 AND y.kind <> 'child' ORDER BY y.since, y.item LIMIT 1000) x
  LEFT JOIN tools.v_calls c ON x.kind = 'tool' AND c.call_id = substr(x.item, 6) -- "call/" before it
 ORDER BY p.run_id, x.since, x.item`

	childrenOfRuns = `
SELECT run_id, count(*), min(since) FROM runner.v_pending
 WHERE run_id = ANY($1) AND namespace = $2 AND kind = 'child'
 GROUP BY run_id ORDER BY run_id LIMIT 1000`

	approvalsOfRuns = `
SELECT ` + approvalColumns + `
  FROM approvals.v_requests
 WHERE run_id = ANY($1) AND namespace = $2 AND state = 'pending'
 ORDER BY created_at, approval_id LIMIT 5000`

	heldOfRuns = `
SELECT call_id, stop_id, principal, note, since
  FROM tools.v_held
 WHERE run_id = ANY($1) AND namespace = $2 AND ended_at IS NULL
 ORDER BY call_id LIMIT 5000`

	delayedOfRuns = `
SELECT call_id, coalesce(limited_by, ''), attempts, left(coalesce(error, ''), 300), next_at
  FROM tools.v_delayed
 WHERE run_id = ANY($1) AND namespace = $2
 ORDER BY call_id LIMIT 5000`

	deadlinesOfRuns = `
SELECT run_id, deadline FROM runner.v_control
 WHERE run_id = ANY($1) AND namespace = $2 AND deadline IS NOT NULL ORDER BY run_id LIMIT 1000`
)

// Situations implements console.RunReader: one round trip for all of them, and a second
// when one of them waits for a place under a concurrency key.
func (s *Store) Situations(ctx context.Context, namespace string, runs []console.Run) ([]console.Situation, error) {
	out := make([]console.Situation, len(runs))
	at := make(map[string]int, len(runs))
	var open []string
	for i, r := range runs {
		out[i].Run = r
		if !events.Ended(r.Status) && r.Kind != console.KindProgram {
			at[string(r.ID)], open = i, append(open, string(r.ID))
		}
	}
	if len(open) == 0 {
		return out, nil
	}
	var shared console.Situation // of calls and questions, which are found by their ids
	var placed []string
	b := &pgx.Batch{}
	b.Queue(pendingOfRuns, open, namespace).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			p, id, err := scanPendingOf(rows)
			if err != nil {
				return err
			}
			one := &out[at[id]]
			if one.Pending = append(one.Pending, p); p.Kind == "slots" {
				placed = append(placed, id)
			}
		}
		return rows.Err()
	})
	b.Queue(childrenOfRuns, open, namespace).Query(func(rows pgx.Rows) error {
		p := console.Pending{Kind: "child"}
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id, &p.Count, &p.Since}, func() error {
			out[at[id]].Pending = append(out[at[id]].Pending, p)
			return nil
		})
		return err
	})
	b.Queue(approvalsOfRuns, open, namespace).Query(func(rows pgx.Rows) (err error) {
		shared.Approvals, err = pgx.CollectRows(rows, scanApproval)
		return err
	})
	b.Queue(heldOfRuns, open, namespace).Query(func(rows pgx.Rows) (err error) {
		shared.Held, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.Held])
		return err
	})
	b.Queue(delayedOfRuns, open, namespace).Query(func(rows pgx.Rows) (err error) {
		shared.Delayed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.Delayed])
		return err
	})
	b.Queue(deadlinesOfRuns, open, namespace).Query(func(rows pgx.Rows) error {
		var id string
		var deadline time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &deadline}, func() error {
			out[at[id]].Run.Deadline = deadline.UTC()
			return nil
		})
		return err
	})
	b.Queue(workers).Query(func(rows pgx.Rows) (err error) {
		shared.Workers, err = pgx.CollectRows(rows, scanWorker)
		return err
	})
	b.Queue(databaseTime).QueryRow(func(row pgx.Row) error { return row.Scan(&shared.Now) })
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("explain %d runs: %w", len(runs), err)
	}
	for i := range out {
		one := &out[i]
		one.Approvals, one.Held, one.Delayed, one.Workers, one.Now = shared.Approvals, shared.Held, shared.Delayed, shared.Workers, shared.Now
	}
	return out, s.places(ctx, namespace, placed, func(id string) *console.Situation { return &out[at[id]] })
}

// places adds how queued runs stand under their concurrency keys.
func (s *Store) places(ctx context.Context, namespace string, runs []string, of func(id string) *console.Situation) error {
	if len(runs) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, id := range runs {
		b.Queue(placesOfRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
			of(id).Places, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.PlaceWait])
			return err
		})
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read the places of %d runs: %w", len(runs), err)
	}
	return nil
}
