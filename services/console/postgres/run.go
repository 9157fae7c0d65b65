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
