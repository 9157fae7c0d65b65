package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	askedByRun = `
SELECT approval_id, kind, tool, state, coalesce(decided_by, ''), created_at, decided_at, expires_at
  FROM approvals.v_requests
 WHERE run_id = $1 AND namespace = $2
 ORDER BY state <> 'pending', created_at DESC, approval_id LIMIT $3`
	childrenOfRun = `
SELECT r.run_id, r.name, r.status, coalesce(r.parent_item, ''), left(r.input::text, 400), r.model_calls, r.tool_calls, r.cost_micro_usd, left(r.waiting, 200)
  FROM runner.v_runs r
 WHERE r.parent_run_id = $1 AND r.namespace = $2
 ORDER BY r.run_id LIMIT $3`
	childCounts = `
SELECT split_part(coalesce(r.parent_item, ''), '/', 1), r.status, count(*)
  FROM runner.v_runs r WHERE r.parent_run_id = $1 AND r.namespace = $2 GROUP BY 1, 2 ORDER BY 1, 2`
)

// stepRows counts what each row starts; what it starts is not read.
var stepRows = `
SELECT e.seq, coalesce(x.step #>> '{}', ''), json_array_length(` + listOf("x.children") + `) + CASE WHEN e.kind = '` + events.FactItemsStarted + `' OR e.kind = '` + events.FactItemsKept + `' THEN json_array_length(` + listOf("x.items") + `) ELSE 0 END,
       CASE WHEN json_typeof(x.total) = 'number' THEN (x.total #>> '{}')::float8::bigint ELSE 0 END, e.kind = '` + events.FactStepSkipped + `' OR coalesce(x.skipped #>> '{}', '') = 'true'
  FROM runner.v_events e, LATERAL json_to_record(` + objectOf("e.data") + `) AS x(` + columns("step", "children", "items", "total", "skipped") + `)
 WHERE e.run_id = $1 AND e.namespace = $2 AND e.kind IN ('` + events.FactChildrenStarted + `', '` + events.FactItemsStarted + `', '` + events.FactStepSkipped + `', '` + events.FactItemsKept + `')
 ORDER BY e.seq LIMIT $3`

// RunApprovals implements console.PartReader.
func (s *Store) RunApprovals(ctx context.Context, namespace string, run events.RunID, limit int) ([]console.RunApproval, error) {
	rows, err := s.pool.Query(ctx, askedByRun, string(run), namespace, limit)
	if err != nil {
		return nil, fmt.Errorf("list approvals of run %s: %w", run, err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a console.RunApproval, err error) {
		var decided, expires *time.Time
		err = row.Scan(&a.ID, &a.Kind, &a.Tool, &a.State, &a.By, &a.CreatedAt, &decided, &expires)
		a.CreatedAt, a.DecidedAt, a.ExpiresAt = a.CreatedAt.UTC(), orZero(decided), orZero(expires)
		return a, err
	})
}

// ChildRuns implements console.PartReader.
func (s *Store) ChildRuns(ctx context.Context, namespace string, run events.RunID, limit int) (out []console.ChildRun, counts []console.ChildCount, err error) {
	b := &pgx.Batch{}
	b.Queue(childrenOfRun, string(run), namespace, limit).Query(func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c console.ChildRun, err error) {
			err = row.Scan(&c.ID, &c.Name, &c.Status, &c.Item, &c.Input, &c.ModelCalls, &c.ToolCalls, &c.Cost, &c.Waiting)
			return c, err
		})
		return err
	})
	b.Queue(childCounts, string(run), namespace).Query(func(rows pgx.Rows) (err error) {
		counts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[console.ChildCount])
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, fmt.Errorf("list what run %s started: %w", run, err)
	}
	return out, counts, nil
}

// StepRows implements console.PartReader.
func (s *Store) StepRows(ctx context.Context, namespace string, run events.RunID, limit int) ([]console.StepRow, error) {
	rows, err := s.pool.Query(ctx, stepRows, string(run), namespace, limit)
	if err != nil {
		return nil, fmt.Errorf("read the steps of run %s: %w", run, err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r console.StepRow, err error) {
		err = row.Scan(&r.Seq, &r.Step, &r.Items, &r.Total, &r.Skipped)
		return r, err
	})
}
