package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const knownOfRun = `SELECT seq, kind, data FROM runner.v_known WHERE run_id = $1 AND namespace = $2 ORDER BY seq`

// What the run's calls left, and what effects left that its last thousand share with
// another run.
const artifactsOfRun = `
SELECT a.artifact_id, a.call_id, a.tool, a.name, a.content_type, a.bytes, a.truncated, coalesce(a.uri, ''), a.kind, a.title, a.created_at
  FROM tools.v_artifacts a
 WHERE a.namespace = $2 AND a.artifact_id IN (
       SELECT x.artifact_id FROM tools.v_artifacts x WHERE x.run_id = $1
        UNION
       SELECT x.artifact_id FROM (SELECT c.effect_id FROM tools.v_calls c WHERE c.run_id = $1 AND c.effect_id IS NOT NULL ORDER BY c.updated_at DESC, c.call_id LIMIT 1000) c
         JOIN tools.v_artifacts x ON x.effect_id = c.effect_id)
 ORDER BY a.created_at DESC, a.artifact_id DESC
 LIMIT $3`

// queueKnown folds what a run has written down, one row at a time, and lists what its
// calls left.
func queueKnown(b *pgx.Batch, namespace string, id events.RunID, k *console.Known) {
	b.Queue(knownOfRun, string(id), namespace).Query(func(rows pgx.Rows) error { return foldKnown(rows, k) })
	b.Queue(artifactsOfRun, string(id), namespace, console.MaxRunArtifacts+1).Query(func(rows pgx.Rows) (err error) {
		k.Artifacts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (console.Artifact, error) {
			var a console.Artifact
			err := row.Scan(&a.ID, &a.CallID, &a.Tool, &a.Name, &a.ContentType, &a.Bytes, &a.Truncated, &a.URI, &a.Kind, &a.Title, &a.CreatedAt)
			a.CreatedAt = a.CreatedAt.UTC()
			return a, err
		})
		if k.More = len(k.Artifacts) > console.MaxRunArtifacts; k.More {
			k.Artifacts = k.Artifacts[:console.MaxRunArtifacts]
		}
		return err
	})
}

func foldKnown(rows pgx.Rows, k *console.Known) error {
	var seq int64
	var kind string
	var data json.RawMessage
	_, err := pgx.ForEachRow(rows, []any{&seq, &kind, &data}, func() error {
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
		return fmt.Errorf("read plan and facts: %w", err)
	}
	return nil
}
