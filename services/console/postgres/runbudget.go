package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	limitsOfRun = `
SELECT kind, data FROM (
    SELECT seq, kind, data FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND seq = 1 UNION ALL
    SELECT seq, kind, data FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactBudgetRaised + `') limits
 ORDER BY seq`
	stepsOfRun = `
SELECT count(*) FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND kind = '` + events.FactModelAnswered + `'`
	pinnedBody = `SELECT body FROM catalog.v_versions WHERE namespace = $1 AND kind = $2 AND name = $3 AND digest = $4`
	// The newest window of each.
	poolsOfRun = `
SELECT DISTINCT ON (pool) pool, window_start, unit, ceiling, used, reserved FROM runner.v_pools
 WHERE namespace = $1 AND pool = ANY($2) ORDER BY pool, window_start DESC`
)

func newLimits() console.RunLimits { return console.RunLimits{Raised: map[string]int64{}} }

// queueLimits reads what budgets needs and is found by the run's id. Rows that cannot
// be read hide ceilings, not the run.
func queueLimits(b *pgx.Batch, namespace string, id events.RunID, limits *console.RunLimits) {
	b.Queue(limitsOfRun, string(id), namespace).Query(func(rows pgx.Rows) error {
		var kind string
		var data json.RawMessage
		_, err := pgx.ForEachRow(rows, []any{&kind, &data}, func() error {
			var raised events.Raised
			switch {
			case kind == events.FactStarted:
				if json.Unmarshal(data, &limits.Started) != nil {
					limits.Started = events.RunStarted{}
				}
			case json.Unmarshal(data, &raised) == nil:
				limits.Raised[raised.Budget] = raised.To
			}
			return nil
		})
		return err
	})
	b.Queue(databaseTime).QueryRow(func(row pgx.Row) error { return row.Scan(&limits.Now) })
}

// budgets says how a run stands to its ceilings. Definitions that cannot be read hide
// ceilings, not the run.
func (s *Store) budgets(ctx context.Context, r console.Run, limits console.RunLimits) ([]console.RunBudget, error) {
	if r.Kind == console.KindProgram || !r.Taken() {
		return nil, nil
	}
	b := &pgx.Batch{}
	b.Queue(pinnedBody, r.Namespace, r.Kind, r.Name, string(r.Digest)).Query(func(rows pgx.Rows) error {
		bodies, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
		if err != nil || len(bodies) == 0 {
			return err
		}
		if r.Kind == events.KindFlow {
			limits.Flow, _ = spec.DecodeFlow(bodies[0])
		} else {
			limits.Agent, _ = spec.DecodeAgent(bodies[0])
		}
		return nil
	})
	if err := s.keyed.Send(ctx, b); err != nil {
		return nil, fmt.Errorf("read the ceilings of run %s: %w", r.ID, err)
	}
	if limits.Agent != nil && limits.Agent.Budget.Steps > 0 { // it reads the whole journal
		if err := s.pool.QueryRow(ctx, stepsOfRun, string(r.ID), r.Namespace).Scan(&limits.Steps); err != nil {
			return nil, fmt.Errorf("count the steps of run %s: %w", r.ID, err)
		}
	}
	out, pools := limits.Own(r), limits.Pools(r)
	if len(pools) == 0 {
		return out, nil
	}
	rows, err := s.pool.Query(ctx, poolsOfRun, r.Namespace, pools)
	if err != nil {
		return nil, fmt.Errorf("read the shared budgets of run %s: %w", r.ID, err)
	}
	shared, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p console.RunBudget, err error) {
		err = row.Scan(&p.Name, &p.Window, &p.Unit, &p.Limit, &p.Used, &p.Reserved)
		p.Name = "pool:" + p.Name
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the shared budgets of run %s: %w", r.ID, err)
	}
	return append(out, shared...), nil
}
