package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// A run that a runner knows, and an accepted start that none has taken yet, in
// the same columns. The trigger's ids have the collation "C"; the runner's index
// is only used without it.
const (
	takenRuns = `
SELECT r.run_id, r.namespace, r.kind, r.name, r.digest, r.status, r.seq, r.waiting, r.input, r.output, r.error,
       r.labels, r.trigger, r.principal, coalesce(r.parent_run_id, ''), coalesce(r.parent_item, ''),
       r.model_calls, r.tool_calls, r.tokens, r.cost_micro_usd, r.cost_estimated_micro_usd, coalesce(r.claim_worker, ''), r.claim_epoch, r.claim_at, r.attempts,
       r.accepted_at, r.created_at, r.updated_at, r.ended_at, true AS announced
  FROM runner.v_runs r`
	queuedRuns = `
SELECT d.run_id COLLATE "default", d.namespace, d.ref_kind, d.ref_name, d.ref_digest, 'queued', 0::bigint, '', d.input, NULL::json, NULL::json,
       d.labels, json_build_object('kind', d.source_kind, 'name', d.source_name, 'id', d.delivery_id), d.principal, '', '',
       0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '', 0::bigint, NULL::timestamptz, 0,
       d.accepted_at, d.accepted_at, d.accepted_at, NULL::timestamptz, d.announced_at IS NOT NULL
  FROM ` + startsOfRuns + ` d`
	// startsOfRuns are the starts of runs that were not deleted.
	startsOfRuns = `(SELECT q.* FROM trigger.v_deliveries q WHERE NOT EXISTS (SELECT FROM runner.v_deleted x WHERE x.run_id = q.run_id COLLATE "default"))`
)

// The row with the higher seq is the runner's; a start that it has taken is
// still a delivery too.
const getRun = `SELECT * FROM (` +
	takenRuns + ` WHERE r.run_id = $1 AND r.namespace = $2 UNION ALL ` +
	queuedRuns + ` WHERE d.run_id = $1 AND d.namespace = $2 UNION ALL ` +
	queuedForks + ` WHERE c.run_id = $1 AND c.namespace = $2 AND c.kind = 'fork' UNION ALL ` +
	programRuns + ` WHERE p.run_id = $1 AND p.namespace = $2) runs
ORDER BY seq DESC LIMIT 1`

// GetRun implements console.RunReader. Whoever waits for a run asks again and again:
// what is found by the run's id is read in one round trip.
func (s *Store) GetRun(ctx context.Context, namespace string, id events.RunID) (console.Run, error) {
	var r console.Run
	limits := newLimits()
	b := &pgx.Batch{}
	b.Queue(getRun, id, namespace).Query(func(rows pgx.Rows) (err error) {
		r, err = pgx.CollectExactlyOneRow(rows, scanRun)
		return err
	})
	queueCallback(b, namespace, id, &r)
	queueLinks(b, namespace, id, &r)
	queueControl(b, namespace, id, &r)
	queueMoves(b, namespace, id, &r)
	queueKnown(b, namespace, id, &r.Known)
	queueEdits(b, namespace, id, &r.Edits)
	queueLimits(b, namespace, id, &limits)
	if err := s.keyed.Send(ctx, b); err != nil {
		return r, s.orGone(ctx, namespace, id, notFound(err, "get run %s", id))
	}
	if err := s.messages(ctx, &r); err != nil {
		return r, err
	}
	var err error
	r.Budgets, err = s.budgets(ctx, r, limits)
	return r, err
}

// listRuns builds the list query from fixed parts, so that each combination of
// filters gets a plan of its own: a label must use its index.
func listRuns(f console.RunFilter) (query string, args []any) {
	taken, queued := []string{"r.namespace = $1"}, []string{"d.namespace = $1", "d.landed_at IS NULL",
		`NOT EXISTS (SELECT 1 FROM runner.v_runs x WHERE x.run_id = d.run_id COLLATE "default")`}
	programs := []string{"p.namespace = $1"}
	args = []any{f.Namespace}
	both := func(inTaken, inQueued string, arg any) {
		args = append(args, arg)
		n := fmt.Sprintf("$%d", len(args))
		programs = append(programs, strings.ReplaceAll(ofProgram(inTaken), "?", n))
		taken = append(taken, strings.ReplaceAll(inTaken, "?", n))
		queued = append(queued, strings.ReplaceAll(inQueued, "?", n))
	}
	if f.Kind != "" {
		both("r.kind = ?", "d.ref_kind = ?", f.Kind)
	}
	if f.Name != "" {
		both("r.name = ?", "d.ref_name = ?", f.Name)
	}
	if f.Status != "" {
		both("r.status = ?", "'queued' = ?::text", f.Status)
	}
	if f.Status == events.StatusQueued {
		// Those that wait for a place under a concurrency key; their index is small.
		taken = append(taken, "r.run_id IN (SELECT w.run_id FROM runner.v_slots w WHERE w.namespace = $1 AND NOT w.held AND w.replaced_by IS NULL)")
		programs = append(programs, "false") // or all are read to find none
	}
	if f.Open {
		programs = append(programs, "false")
	}
	if f.Open || f.Status != "" && !events.Ended(f.Status) { // their index is small
		taken = append(taken, "r.ended_at IS NULL")
	}
	if len(f.Labels) > 0 {
		both("r.labels @> ?::jsonb", "d.labels @> ?::jsonb", f.Labels)
	}
	if f.Parent != "" {
		both("r.parent_run_id = ?", "? = ''", string(f.Parent)) // a child is no delivery
	}
	if f.Before != "" {
		both("r.run_id < ?", "d.run_id < ?", string(f.Before))
	}
	args = append(args, f.Limit)
	limit := fmt.Sprintf("$%d", len(args))
	return `SELECT * FROM (` +
		`(` + listed(takenRuns) + ` WHERE ` + strings.Join(taken, " AND ") + ` ORDER BY r.run_id DESC LIMIT ` + limit + `) UNION ALL ` +
		`(` + listed(queuedRuns) + ` WHERE ` + strings.Join(queued, " AND ") + ` ORDER BY d.run_id DESC LIMIT ` + limit + `) UNION ALL ` +
		`(` + listed(programRuns) + ` WHERE ` + strings.Join(programs, " AND ") + ` ORDER BY p.run_id DESC LIMIT ` + limit + `)) runs
ORDER BY run_id DESC LIMIT ` + limit, args
}

// listed leaves the large columns out of a list.
func listed(columns string) string {
	return strings.NewReplacer("r.input, r.output,", "NULL::json, NULL::json,", "d.input, NULL::json,", "NULL::json, NULL::json,", "p.input, p.output,", "NULL::json, NULL::json,").Replace(columns)
}

// Runs implements console.RunReader.
func (s *Store) Runs(ctx context.Context, f console.RunFilter) ([]console.Run, error) {
	query, args := listRuns(f)
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

func scanRun(row pgx.CollectableRow) (console.Run, error) {
	var (
		r                       console.Run
		labels                  map[string]string
		input, output, problem  *json.RawMessage
		trigger                 *json.RawMessage
		claimAt, endedAt        *time.Time
		accepted, made, updated time.Time
	)
	err := row.Scan(&r.ID, &r.Namespace, &r.Kind, &r.Name, &r.Digest, &r.Status, &r.Seq, &r.Waiting, &input, &output, &problem,
		&labels, &trigger, &r.Principal, &r.ParentRunID, &r.ParentItem,
		&r.ModelCalls, &r.ToolCalls, &r.Tokens, &r.CostMicroUSD, &r.CostEstimatedMicroUSD, &r.ClaimWorker, &r.ClaimEpoch, &claimAt, &r.Attempts,
		&accepted, &made, &updated, &endedAt, &r.Announced)
	if err != nil {
		return console.Run{}, err
	}
	r.Labels, r.Input, r.Output, r.Error, r.Trigger = labels, raw(input), raw(output), raw(problem), raw(trigger)
	r.ClaimAt, r.EndedAt = orZero(claimAt), orZero(endedAt)
	r.AcceptedAt, r.CreatedAt, r.UpdatedAt = accepted.UTC(), made.UTC(), updated.UTC()
	return r, nil
}

func raw(m *json.RawMessage) json.RawMessage {
	if m == nil {
		return nil
	}
	return *m
}

const headOfRun = `SELECT seq, status FROM (
    SELECT r.seq, r.status FROM runner.v_runs r WHERE r.run_id = $1 AND r.namespace = $2 UNION ALL
    SELECT 0, 'queued' FROM ` + ordersOfForks + ` c WHERE c.run_id = $1 AND c.namespace = $2 AND c.kind = 'fork' UNION ALL
    SELECT 0, 'queued' FROM ` + startsOfRuns + ` d WHERE d.run_id = $1 AND d.namespace = $2 UNION ALL
    SELECT p.version + CASE WHEN p.ended_at IS NULL THEN 1 ELSE 2 END, p.status FROM console.programs p WHERE p.run_id = $1 AND p.namespace = $2) runs
ORDER BY seq DESC LIMIT 1`

// Head implements follow.History.
func (s *Store) Head(ctx context.Context, namespace string, run events.RunID) (seq int64, status string, err error) {
	err = s.pool.QueryRow(ctx, headOfRun, run, namespace).Scan(&seq, &status)
	return seq, status, s.orGone(ctx, namespace, run, notFound(err, "get run %s", run))
}

const eventsOfRun = `
SELECT run_id, namespace, seq, kind, status, at, cause, worker, data
  FROM runner.v_events
 WHERE run_id = $1 AND namespace = $2 AND seq > $3
 ORDER BY seq LIMIT $4`

// Events implements follow.History.
func (s *Store) Events(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error) {
	rows, err := s.pool.Query(ctx, eventsOfRun, run, namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.RunEvent, error) {
		var e events.RunEvent
		err := row.Scan(&e.RunID, &e.Namespace, &e.Seq, &e.Kind, &e.Status, &e.At, &e.Cause, &e.Worker, &e.Data)
		e.At = e.At.UTC()
		return e, err
	})
	if err == nil && len(out) == 0 {
		out, err = s.programEvents(ctx, namespace, run, after, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", run, err)
	}
	return out, nil
}
