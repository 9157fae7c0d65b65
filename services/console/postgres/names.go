package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const namesOfRuns = `SELECT run_id, name FROM runner.v_runs WHERE namespace = $1 AND run_id = ANY($2) ORDER BY run_id LIMIT 5000`

// NamesOfRuns implements console.NamesReader.
func (s *Store) NamesOfRuns(ctx context.Context, namespace string, runs []events.RunID) (map[events.RunID]string, error) {
	rows, err := s.pool.Query(ctx, namesOfRuns, namespace, runs)
	if err != nil {
		return nil, fmt.Errorf("names of runs: %w", err)
	}
	out := map[events.RunID]string{}
	var id events.RunID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error { out[id] = name; return nil }); err != nil {
		return nil, fmt.Errorf("names of runs: %w", err)
	}
	return out, nil
}
