package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

var _ tools.Ends = (*Store)(nil)

const endOfRunSQL = `
SELECT callback, ended_at FROM runner.v_callbacks WHERE run_id = $1 AND namespace = $2 AND ended_at IS NOT NULL`

// EndOf implements tools.Ends.
func (s *Store) EndOf(ctx context.Context, namespace string, run events.RunID) (url string, at time.Time, err error) {
	err = s.pool.QueryRow(ctx, endOfRunSQL, string(run), namespace).Scan(&url, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, fmt.Errorf("end of run %s: %w", run, tools.ErrNotFound)
	}
	return url, at.UTC(), err
}

const endedRunSQL = `
SELECT kind, name, status, output::text, error::text, labels::text, model_calls, tool_calls, tokens, accepted_at, created_at, ended_at
  FROM runner.v_callbacks WHERE run_id = $1 AND namespace = $2 AND ended_at IS NOT NULL`

// Ended implements tools.Ends.
func (s *Store) Ended(ctx context.Context, namespace string, run events.RunID) (events.RunEnded, error) {
	d := events.RunEndedData{RunID: run, Namespace: namespace}
	var kind, name, labels string
	var output, failure *string
	err := s.pool.QueryRow(ctx, endedRunSQL, string(run), namespace).Scan(&kind, &name, &d.Status, &output, &failure, &labels,
		&d.Usage.ModelCalls, &d.Usage.ToolCalls, &d.Usage.Tokens, &d.AcceptedAt, &d.StartedAt, &d.EndedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return events.RunEnded{}, fmt.Errorf("end of run %s: %w", run, tools.ErrNotFound)
	}
	if err != nil {
		return events.RunEnded{}, err
	}
	if err := json.Unmarshal([]byte(labels), &d.Labels); err != nil {
		return events.RunEnded{}, fmt.Errorf("labels of run %s: %w", run, err)
	}
	d.Agent = name
	if kind == events.KindFlow {
		d.Agent, d.Flow = "", name
	}
	d.Output, d.Error = raw(output), raw(failure)
	d.AcceptedAt, d.StartedAt, d.EndedAt = d.AcceptedAt.UTC(), d.StartedAt.UTC(), d.EndedAt.UTC()
	return events.RunEnded{Type: events.TypeRunEnded, Timestamp: d.EndedAt, Data: d}, nil
}
