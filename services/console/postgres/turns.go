package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	pastTurns = `
SELECT seq, at, left(coalesce(data->>'text', ''), 160),
       coalesce((SELECT array_agg(coalesce(c->>'tool', '')) FROM json_array_elements(CASE WHEN json_typeof(data->'calls') = 'array' THEN data->'calls' ELSE '[]' END) c), '{}')
  FROM runner.v_events
 WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactModelAnswered + `' AND seq <= $3
 ORDER BY seq DESC LIMIT $4`
	pastResults = `
SELECT coalesce(data->>'call_id', ''), seq, coalesce(data->>'tool', ''), left(coalesce((data->'result')::text, 'null'), $5), length(coalesce((data->'result')::text, 'null')) <= $5
  FROM runner.v_events
 WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactToolCompleted + `' AND seq <= $3
 ORDER BY seq DESC LIMIT $4`
	// pastResultChars is how much of a result can be edited in a page.
	pastResultChars = 16 << 10
)

// PastTurns implements console.TurnReader.
func (s *Store) PastTurns(ctx context.Context, namespace string, run events.RunID, to int64, limit int) ([]console.PastTurn, error) {
	rows, err := s.pool.Query(ctx, pastTurns, string(run), namespace, to, limit)
	if err != nil {
		return nil, fmt.Errorf("list answers of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t console.PastTurn, err error) {
		err = row.Scan(&t.Seq, &t.At, &t.Text, &t.Asks)
		t.At = t.At.UTC()
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list answers of run %s: %w", run, err)
	}
	return out, nil
}

// PastResults implements console.TurnReader.
func (s *Store) PastResults(ctx context.Context, namespace string, run events.RunID, to int64, limit int) ([]console.PastResult, error) {
	rows, err := s.pool.Query(ctx, pastResults, string(run), namespace, to, limit, pastResultChars)
	if err != nil {
		return nil, fmt.Errorf("list results of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r console.PastResult, err error) {
		err = row.Scan(&r.CallID, &r.Seq, &r.Tool, &r.Result, &r.Whole)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list results of run %s: %w", run, err)
	}
	return out, nil
}
