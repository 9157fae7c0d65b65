package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/blob"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// keepArtifactSQL writes an artifact of a call that has a row. A repeat changes
// nothing.
const keepArtifactSQL = `
INSERT INTO tools.artifacts (artifact_id, namespace, run_id, call_id, effect_id, tool, name, content_type, bytes, digest, truncated, uri, kind, title)
SELECT $2, c.namespace, c.run_id, c.call_id, c.effect_id, c.tool, $3, $4, $5, $6, $7, $8, $9, $10
  FROM tools.calls c WHERE c.call_id = $1
ON CONFLICT (artifact_id) DO NOTHING`

// keepArtifacts is part of the transaction that records the outcome.
func keepArtifacts(ctx context.Context, tx pgx.Tx, call events.CallID, list []tools.Artifact) error {
	run, _ := call.Run()
	for _, a := range list {
		var digest string
		if a.URI == "" {
			ref := blob.Ref(events.RunScope(run), a.Data)
			if err := blob.Put(ctx, tx, ref, a.Data); err != nil {
				return err
			}
			a.Bytes, digest = ref.Bytes, string(ref.Digest)
		}
		if _, err := tx.Exec(ctx, keepArtifactSQL, string(call), a.ID, a.Name, a.ContentType, a.Bytes, null(digest), a.Truncated,
			null(a.URI), a.Kind, a.Title); err != nil {
			return fmt.Errorf("keep artifact %s of call %s: %w", a.ID, call, err)
		}
	}
	return nil
}

const artifactColumns = `a.artifact_id, a.namespace, a.run_id, a.call_id, a.tool, a.name, a.content_type, a.bytes, a.digest, a.truncated,
	a.uri, a.kind, a.title, a.created_at`

type artifactRow struct {
	ArtifactID, Namespace, RunID, CallID, Tool, Name, ContentType string
	Bytes                                                         int64
	Digest                                                        *string
	Truncated                                                     bool
	URI                                                           *string
	Kind, Title                                                   string
	CreatedAt                                                     time.Time
}

func (r artifactRow) artifact() tools.Artifact {
	return tools.Artifact{
		ID: r.ArtifactID, Namespace: r.Namespace, RunID: events.RunID(r.RunID), CallID: events.CallID(r.CallID), Tool: r.Tool,
		Name: r.Name, ContentType: r.ContentType, Bytes: r.Bytes, Digest: events.Digest(text(r.Digest)), Truncated: r.Truncated,
		URI: text(r.URI), Kind: r.Kind, Title: r.Title, CreatedAt: r.CreatedAt.UTC(),
	}
}

const listArtifactsSQL = `SELECT ` + artifactColumns + `
  FROM tools.artifacts a
 WHERE a.namespace = $1
   AND ($2 = '' OR a.run_id = $2 OR a.effect_id IN (SELECT c.effect_id FROM tools.calls c WHERE c.run_id = $2))
   AND (NOT $3::bool OR (a.created_at, a.artifact_id) < ($4::timestamptz, $5::text))
 ORDER BY a.created_at DESC, a.artifact_id DESC
 LIMIT $6`

const getArtifactSQL = `SELECT ` + artifactColumns + ` FROM tools.artifacts a WHERE a.namespace = $1 AND a.artifact_id = $2`

// Artifacts implements tools.Reader.
func (s *Store) Artifacts(ctx context.Context, f tools.ArtifactFilter) ([]tools.Artifact, error) {
	after := f.After
	if after == nil {
		after = &tools.ArtifactPosition{}
	}
	found, err := collect[artifactRow](s.pool.Query(ctx, listArtifactsSQL, f.Namespace, string(f.RunID), f.After != nil,
		after.CreatedAt, after.ID, f.Limit))
	if err != nil {
		return nil, err
	}
	out := make([]tools.Artifact, 0, len(found))
	for _, r := range found {
		out = append(out, r.artifact())
	}
	return out, nil
}

// ArtifactData implements tools.Reader.
func (s *Store) ArtifactData(ctx context.Context, namespace, id string) (tools.Artifact, error) {
	found, err := collect[artifactRow](s.pool.Query(ctx, getArtifactSQL, namespace, id))
	switch {
	case err != nil:
		return tools.Artifact{}, err
	case len(found) == 0:
		return tools.Artifact{}, fmt.Errorf("artifact %s: %w", id, tools.ErrNotFound)
	}
	return s.withData(ctx, found[0].artifact())
}

// withData reads the bytes of an artifact that is kept here.
func (s *Store) withData(ctx context.Context, a tools.Artifact) (_ tools.Artifact, err error) {
	if a.URI != "" {
		return a, nil
	}
	a.Data, err = blob.Get(ctx, s.pool, events.BlobRef{Scope: events.RunScope(a.RunID), Digest: a.Digest, Bytes: a.Bytes})
	if errors.Is(err, blob.ErrNotFound) {
		return tools.Artifact{}, fmt.Errorf("artifact %s: %w", a.ID, tools.ErrForgotten)
	}
	return a, err
}

// runArtifactSQL begins at the run: what its calls left, and what effects left
// that it shares.
const runArtifactSQL = `
WITH mine AS (
    SELECT artifact_id FROM tools.artifacts WHERE run_id = $2
    UNION
    SELECT x.artifact_id FROM tools.calls c JOIN tools.artifacts x ON x.effect_id = c.effect_id WHERE c.run_id = $2
)
SELECT ` + artifactColumns + `
  FROM mine JOIN tools.artifacts a USING (artifact_id)
 WHERE a.namespace = $1 AND CASE WHEN $3 <> '' THEN a.artifact_id = $3 ELSE a.name = $4 END
 ORDER BY a.created_at DESC, a.artifact_id DESC
 LIMIT 1`

// RunArtifact implements tools.RunArtifacts.
func (s *Store) RunArtifact(ctx context.Context, namespace string, run events.RunID, id, name string) (tools.Artifact, error) {
	found, err := collect[artifactRow](s.pool.Query(ctx, runArtifactSQL, namespace, string(run), id, name))
	switch {
	case err != nil:
		return tools.Artifact{}, fmt.Errorf("read artifact of run %s: %w", run, err)
	case len(found) == 0:
		return tools.Artifact{}, fmt.Errorf("artifact of run %s: %w", run, tools.ErrNotFound)
	}
	return s.withData(ctx, found[0].artifact())
}
