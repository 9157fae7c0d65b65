package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// The views hold nothing but runs that the API started.

const eventsOfRun = `
SELECT run_id, namespace, seq, kind, status, at, cause, worker, data
FROM runner.v_api_events
WHERE run_id = $1 AND namespace = $2 AND seq > $3
ORDER BY seq
LIMIT $4`

// Events implements follow.History.
func (s *Store) Events(ctx context.Context, namespace string, run events.RunID, after int64, limit int) ([]events.RunEvent, error) {
	rows, err := s.pool.Query(ctx, eventsOfRun, string(run), namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", run, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.RunEvent, error) {
		var e events.RunEvent
		err := row.Scan(&e.RunID, &e.Namespace, &e.Seq, &e.Kind, &e.Status, &e.At, &e.Cause, &e.Worker, &e.Data)
		e.At = e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read events of run %s: %w", run, err)
	}
	return list, nil
}

// The runner's row has the higher seq; a start that it took is still a delivery.
const headOfRun = `
SELECT seq, status, output, error FROM (
	SELECT r.seq, r.status, r.output::text, r.error::text FROM runner.v_api_runs r WHERE r.run_id = $1 AND r.namespace = $2
	UNION ALL
	SELECT 0, 'queued', NULL, NULL FROM trigger.deliveries d WHERE d.run_id = $1 AND d.namespace = $2 AND d.source_kind = 'api'
		AND NOT EXISTS (SELECT FROM runner.v_deleted x WHERE x.run_id = d.run_id)) runs
ORDER BY seq DESC
LIMIT 1`

// Head implements follow.History.
func (s *Store) Head(ctx context.Context, namespace string, run events.RunID) (seq int64, status string, err error) {
	seq, out, err := s.head(ctx, namespace, run)
	return seq, out.Status, err
}

// Outcome implements trigger.Runs.
func (s *Store) Outcome(ctx context.Context, namespace string, run events.RunID) (trigger.Outcome, error) {
	_, out, err := s.head(ctx, namespace, run)
	return out, err
}

func (s *Store) head(ctx context.Context, namespace string, run events.RunID) (seq int64, out trigger.Outcome, err error) {
	var output, problem *string // a JSON null is an output, too
	err = s.pool.QueryRow(ctx, headOfRun, string(run), namespace).Scan(&seq, &out.Status, &output, &problem)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, trigger.Outcome{}, fmt.Errorf("run %s: %w", run, trigger.ErrNotFound)
	}
	if err != nil {
		return 0, trigger.Outcome{}, fmt.Errorf("read run %s: %w", run, err)
	}
	if output != nil {
		out.Output = json.RawMessage(*output)
	}
	if problem != nil {
		out.Error = json.RawMessage(*problem)
	}
	return seq, out, nil
}
