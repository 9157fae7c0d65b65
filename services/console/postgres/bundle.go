package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	lastEvents = `
SELECT run_id, namespace, seq, kind, status, at, cause, worker,
       CASE WHEN octet_length(data::text) <= $4 THEN data ELSE 'null' END, CASE WHEN octet_length(data::text) <= $4 THEN 0 ELSE octet_length(data::text) END
  FROM runner.v_events WHERE run_id = $1 AND namespace = $2 ORDER BY seq DESC LIMIT $3`
	firstEvent = `SELECT data FROM runner.v_events WHERE run_id = $1 AND namespace = $2 AND seq = 1`
	// runEffects orders what nobody knows before what is under way and what is over, of the
	// calls that are not over and the newest.
	runEffects = `
SELECT c.call_id, c.tool, c.status, coalesce(e.effect_id, ''), c.key, coalesce(e.state, ''), coalesce(e.in_doubt, ''), coalesce(e.attempts, 0), coalesce(e.worker, ''),
       coalesce(e.error, c.error)::text, c.updated_at
  FROM (SELECT * FROM tools.v_calls c
         WHERE c.run_id = $1 AND c.namespace = $2 AND (c.effect_id IS NOT NULL OR c.status <> 'succeeded')
         ORDER BY c.status IN ('open', 'unknown') DESC, c.updated_at DESC, c.call_id LIMIT greatest($3, 1000)) c LEFT JOIN tools.v_effects e ON e.effect_id = c.effect_id
 ORDER BY CASE e.state WHEN 'unknown' THEN 0 WHEN 'damaged' THEN 1 WHEN 'intent' THEN 2 ELSE 3 END, c.updated_at DESC, c.call_id LIMIT $3`
)

// LastEvents implements console.BundleReader. What a row says is not read.
func (s *Store) LastEvents(ctx context.Context, namespace string, run events.RunID, limit int) ([]events.RunEvent, []json.RawMessage, error) {
	rows, err := s.pool.Query(ctx, lastEvents, string(run), namespace, limit, console.BundleRowBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read the end of the journal of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e events.RunEvent, err error) {
		err = row.Scan(&e.RunID, &e.Namespace, &e.Seq, &e.Kind, &e.Status, &e.At, &e.Cause, &e.Worker, &e.Data, &e.Elided)
		e.At = e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the end of the journal of run %s: %w", run, err)
	}
	slices.Reverse(out)
	if rows, err = s.pool.Query(ctx, firstEvent, string(run), namespace); err != nil {
		return nil, nil, fmt.Errorf("read the first row of run %s: %w", run, err)
	}
	pinned, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil {
		return nil, nil, fmt.Errorf("read the first row of run %s: %w", run, err)
	}
	return out, pinned, nil
}

// RunEffects implements console.BundleReader.
func (s *Store) RunEffects(ctx context.Context, namespace string, run events.RunID, limit int) ([]console.BundleEffect, error) {
	rows, err := s.pool.Query(ctx, runEffects, string(run), namespace, limit)
	if err != nil {
		return nil, fmt.Errorf("list effects of run %s: %w", run, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e console.BundleEffect, err error) {
		var problem *string
		var at time.Time
		err = row.Scan(&e.CallID, &e.Tool, &e.Status, &e.EffectID, &e.Key, &e.State, &e.InDoubt, &e.Attempts, &e.Worker, &problem, &at)
		if e.At = at.UTC(); problem != nil {
			e.Error = json.RawMessage(*problem)
		}
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list effects of run %s: %w", run, err)
	}
	return out, nil
}
