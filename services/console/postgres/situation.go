package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// pinnedPool is the pool of the tool that the run pinned, for a call that no
// worker has seen.
const pinnedPool = `
	SELECT v.body->'spec'->>'pool'
	  FROM runner.v_events s, json_array_elements(s.data->'tools') t, catalog.v_versions v
	 WHERE s.run_id = $1 AND s.namespace = $2 AND s.seq = 1 AND t->>'name' = detail #>> '{}'
	   AND v.namespace = $2 AND v.kind = 'tool' AND v.name = t->>'name' AND v.digest = t->>'digest'`

// behindCall counts older calls that no worker has seen yet, of the tools whose
// pool it is now. behindModel counts older model calls that nobody makes.
const (
	behindCall = `
SELECT count(*) FROM (
	SELECT 1 FROM runner.v_pending p
	  JOIN catalog.v_current c ON c.namespace = p.namespace AND c.kind = 'tool' AND c.name = p.detail #>> '{}'
	  JOIN catalog.v_versions v ON v.namespace = c.namespace AND v.kind = c.kind AND v.name = c.name AND v.digest = c.digest
	 WHERE p.kind = 'tool' AND p.since < $1 AND v.body->'spec'->>'pool' = $2
	   AND NOT EXISTS (SELECT 1 FROM tools.v_calls k WHERE k.call_id = substr(p.item, 6))
	 LIMIT $3) older`
	behindModel = `
SELECT count(*) FROM (
	SELECT 1 FROM runner.v_pending p JOIN runner.v_runs r USING (run_id)
	 WHERE p.kind = 'model' AND p.pool IS NULL AND p.since < $1 AND r.claim_worker IS NULL
	   AND r.status NOT IN ('paused', 'needs_attention')
	 LIMIT $2) older`
)

const pendingOfRun = `
SELECT item, kind, state, since, detail, coalesce(pool, ''),
       (SELECT p.next_attempt_at FROM tools.v_probes p WHERE p.call_id = substr(item, 6)), -- "call/" before it
       (SELECT a.reply_until FROM tools.v_awaited a WHERE a.call_id = substr(item, 6)),
       EXISTS (SELECT 1 FROM tools.v_calls c WHERE c.call_id = substr(item, 6)),
       CASE WHEN kind = 'tool' THEN coalesce((SELECT c.pool FROM tools.v_calls c WHERE c.call_id = substr(item, 6)), (` + pinnedPool + `), '') ELSE '' END
  FROM runner.v_pending
 WHERE run_id = $1 AND namespace = $2
 ORDER BY since, item LIMIT 1000`

const approvalColumns = `approval_id, kind, run_id, agent, tool, args, summary, state, created_at, expires_at, question`

const approvalsOfRun = `
SELECT ` + approvalColumns + `
  FROM approvals.v_requests
 WHERE run_id = $1 AND namespace = $2 AND state = 'pending'
 ORDER BY created_at, approval_id LIMIT 200`

const heldOfRun = `
SELECT call_id, stop_id, principal, note, since
  FROM tools.v_held
 WHERE run_id = $1 AND namespace = $2 AND ended_at IS NULL
 ORDER BY call_id LIMIT 1000`

const delayedOfRun = `
SELECT call_id, coalesce(limited_by, ''), attempts, left(coalesce(error, ''), 300), next_at
  FROM tools.v_delayed
 WHERE run_id = $1 AND namespace = $2
 ORDER BY call_id LIMIT 1000`

// A worker that stopped has the beat '-infinity', which has no age.
const workers = `
SELECT service, name, extract(epoch FROM clock_timestamp() - beat)::float8, started_at, pools, coalesce(skew_ms, 0), coalesce(release, '')
  FROM (SELECT 'runner' AS service, name, beat, started_at, NULL::text[] AS pools, skew_ms, release FROM runner.v_workers LEFT JOIN runner.v_clocks USING (name) LEFT JOIN runner.v_releases USING (name) UNION ALL
        SELECT 'tools', name, beat, started_at, pools, skew_ms, release FROM tools.v_workers LEFT JOIN tools.v_clocks USING (name) LEFT JOIN tools.v_releases USING (name)) w
 WHERE beat > clock_timestamp() - interval '1 hour'
 ORDER BY service, name LIMIT 500`

const databaseTime = `SELECT clock_timestamp()`

// Situation implements console.RunReader.
func (s *Store) Situation(ctx context.Context, namespace string, id events.RunID) (console.Situation, error) {
	var out console.Situation
	b := &pgx.Batch{}
	b.Queue(getRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		out.Run, err = pgx.CollectExactlyOneRow(rows, scanRun)
		return err
	})
	b.Queue(pendingOfRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		out.Pending, err = pgx.CollectRows(rows, scanPending)
		return err
	})
	b.Queue(approvalsOfRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		out.Approvals, err = pgx.CollectRows(rows, scanApproval)
		return err
	})
	b.Queue(heldOfRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		out.Held, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.Held])
		return err
	})
	b.Queue(placesOfRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		out.Places, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.PlaceWait])
		return err
	})
	b.Queue(delayedOfRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		out.Delayed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.Delayed])
		return err
	})
	b.Queue(workers).Query(func(rows pgx.Rows) (err error) {
		out.Workers, err = pgx.CollectRows(rows, scanWorker)
		return err
	})
	b.Queue(databaseTime).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Now) })
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return console.Situation{}, s.orGone(ctx, namespace, id, notFound(err, "explain run %s", id))
	}
	if err := s.control(ctx, &out.Run); err != nil {
		return out, err
	}
	return out, s.queues(ctx, &out)
}

// queues counts what is before the oldest call of each kind that nobody has
// taken; the others are behind that one.
func (s *Store) queues(ctx context.Context, out *console.Situation) error {
	seen := map[string]bool{}
	for i, p := range out.Pending {
		query, args := "", []any{p.Since}
		switch {
		case seen[p.Kind]:
		case p.Kind == "tool" && !p.Taken && p.ToolPool != "":
			query, args = behindCall, append(args, p.ToolPool)
		case p.Kind == "model" && out.Run.ClaimWorker == "" && p.Pool == "":
			query = behindModel
		}
		if query == "" {
			continue
		}
		seen[p.Kind] = true
		if err := s.pool.QueryRow(ctx, query, append(args, console.MaxBehind)...).Scan(&out.Pending[i].Behind); err != nil {
			return fmt.Errorf("count what run %s is behind of: %w", out.Run.ID, err)
		}
	}
	return nil
}

const standingStops = `
SELECT stop_id, scope, name, principal, note, since FROM tools.v_stops
 WHERE namespace = $1 AND ended_at IS NULL
 ORDER BY since, stop_id LIMIT 100`

// Stops implements console.SystemReader.
func (s *Store) Stops(ctx context.Context, namespace string) ([]console.Stop, error) {
	rows, err := s.pool.Query(ctx, standingStops, namespace)
	if err != nil {
		return nil, fmt.Errorf("list stops: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[console.Stop])
	if err != nil {
		return nil, fmt.Errorf("list stops: %w", err)
	}
	return out, nil
}

// Workers implements console.SystemReader.
func (s *Store) Workers(ctx context.Context) ([]console.Worker, error) {
	rows, err := s.pool.Query(ctx, workers)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanWorker)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return out, nil
}

func scanPending(row pgx.CollectableRow) (console.Pending, error) {
	var p pendingRow
	if err := row.Scan(p.into()...); err != nil {
		return console.Pending{}, err
	}
	return p.pending(), nil
}

func scanPendingOf(row pgx.CollectableRow) (pending console.Pending, run string, err error) {
	var p pendingRow
	if err := row.Scan(append([]any{&run}, p.into()...)...); err != nil {
		return console.Pending{}, "", err
	}
	return p.pending(), run, nil
}

// pendingRow is a pending item as the queries return it.
type pendingRow struct {
	console.Pending
	detail      *json.RawMessage
	look, reply *time.Time
}

func (p *pendingRow) into() []any {
	return []any{&p.Item, &p.Kind, &p.State, &p.Since, &p.detail, &p.Pool, &p.look, &p.reply, &p.Taken, &p.ToolPool}
}

func (p *pendingRow) pending() console.Pending {
	if p.look != nil {
		p.Probed, p.NextLook = true, p.look.UTC()
	}
	p.Since, p.Awaited = p.Since.UTC(), orZero(p.reply)
	if json.Unmarshal(raw(p.detail), &p.Detail) != nil {
		p.Detail = string(raw(p.detail)) // of a runner that says more
	}
	return p.Pending
}

func scanApproval(row pgx.CollectableRow) (console.Approval, error) {
	var a console.Approval
	var args *json.RawMessage
	var expires *time.Time
	err := row.Scan(&a.ID, &a.Kind, &a.RunID, &a.Agent, &a.Tool, &args, &a.Summary, &a.State, &a.CreatedAt, &expires, &a.Question)
	a.Args, a.ExpiresAt, a.CreatedAt = raw(args), orZero(expires), a.CreatedAt.UTC()
	return a, err
}

func scanWorker(row pgx.CollectableRow) (console.Worker, error) {
	var w console.Worker
	var age float64
	var skew int64
	err := row.Scan(&w.Service, &w.Name, &age, &w.StartedAt, &w.Pools, &skew, &w.Release)
	w.Age, w.Skew, w.StartedAt = time.Duration(age*float64(time.Second)), time.Duration(skew)*time.Millisecond, w.StartedAt.UTC()
	return w, err
}
