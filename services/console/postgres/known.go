package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const knownOfRun = `SELECT seq, kind, data FROM runner.v_known WHERE run_id = $1 AND namespace = $2 ORDER BY seq`

// What the run's calls left, and what effects left that it shares with another.
const artifactsOfRun = `
SELECT a.artifact_id, a.call_id, a.tool, a.name, a.content_type, a.bytes, a.truncated, coalesce(a.uri, ''), a.kind, a.title, a.created_at
  FROM tools.v_artifacts a
 WHERE a.namespace = $2 AND a.artifact_id IN (
       SELECT x.artifact_id FROM tools.v_artifacts x WHERE x.run_id = $1
        UNION
       SELECT x.artifact_id FROM tools.v_calls c JOIN tools.v_artifacts x ON x.effect_id = c.effect_id WHERE c.run_id = $1)
 ORDER BY a.created_at DESC, a.artifact_id DESC
 LIMIT $3`

// known folds what a run has written down, one row at a time.
func (s *Store) known(ctx context.Context, namespace string, id events.RunID) (console.Known, error) {
	var k console.Known
	rows, err := s.pool.Query(ctx, knownOfRun, string(id), namespace)
	if err != nil {
		return k, fmt.Errorf("read plan and facts of run %s: %w", id, err)
	}
	var seq int64
	var kind string
	var data json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&seq, &kind, &data}, func() error {
		switch kind {
		case events.FactPlanChanged:
			var p events.PlanChanged
			if err := json.Unmarshal(data, &p); err != nil {
				return fmt.Errorf("row %d: %w", seq, err)
			}
			k.Plan = p.Fold(k.Plan)
		case events.FactFactsChanged:
			var f events.FactsChanged
			if err := json.Unmarshal(data, &f); err != nil {
				return fmt.Errorf("row %d: %w", seq, err)
			}
			k.Facts = f.Fold(k.Facts)
		}
		return nil
	})
	if err != nil {
		return k, fmt.Errorf("read plan and facts of run %s: %w", id, err)
	}
	if rows, err = s.pool.Query(ctx, artifactsOfRun, string(id), namespace, console.MaxRunArtifacts+1); err != nil {
		return k, fmt.Errorf("list artifacts of run %s: %w", id, err)
	}
	k.Artifacts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (console.Artifact, error) {
		var a console.Artifact
		err := row.Scan(&a.ID, &a.CallID, &a.Tool, &a.Name, &a.ContentType, &a.Bytes, &a.Truncated, &a.URI, &a.Kind, &a.Title, &a.CreatedAt)
		a.CreatedAt = a.CreatedAt.UTC()
		return a, err
	})
	if err != nil {
		return k, fmt.Errorf("list artifacts of run %s: %w", id, err)
	}
	if k.More = len(k.Artifacts) > console.MaxRunArtifacts; k.More {
		k.Artifacts = k.Artifacts[:console.MaxRunArtifacts]
	}
	return k, nil
}
