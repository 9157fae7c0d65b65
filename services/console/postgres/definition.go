package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const definedOfKind = `
SELECT c.kind, c.name, c.namespace, c.digest, c.version, c.updated_at, v.body
  FROM catalog.v_current c
  JOIN catalog.v_versions v USING (namespace, kind, name, digest)
 WHERE c.namespace = $1 AND c.kind = $2 AND c.name > $3
 ORDER BY c.name LIMIT $4`

// Defined implements console.DefinitionReader.
func (s *Store) Defined(ctx context.Context, namespace, kind, after string, limit int) ([]console.Resource, error) {
	return s.resources(ctx, definedOfKind, namespace, kind, after, limit)
}

const mentionsOfName = `
SELECT c.kind, c.name, c.namespace, c.digest, c.version, c.updated_at, v.body
  FROM catalog.v_current c
  JOIN catalog.v_versions v USING (namespace, kind, name, digest)
 WHERE c.namespace = $1 AND strpos(v.body::text, '"' || $2 || '"') > 0
 ORDER BY c.kind, c.name LIMIT $3`

// Mentions implements console.DefinitionReader.
func (s *Store) Mentions(ctx context.Context, namespace, name string, limit int) ([]console.Resource, error) {
	return s.resources(ctx, mentionsOfName, namespace, name, limit)
}

func (s *Store) resources(ctx context.Context, query string, args ...any) ([]console.Resource, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanResource)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	return out, nil
}

const kindCounts = `SELECT kind, count(*) FROM catalog.v_current WHERE namespace = $1 GROUP BY kind ORDER BY kind LIMIT 100`

// KindCounts implements console.DefinitionReader.
func (s *Store) KindCounts(ctx context.Context, namespace string) (map[string]int64, error) {
	out := map[string]int64{}
	var kind string
	var n int64
	rows, err := s.pool.Query(ctx, kindCounts, namespace)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&kind, &n}, func() error { out[kind] = n; return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("count definitions: %w", err)
	}
	return out, nil
}

// A version that was stored before changes were kept has no number. Runs are counted
// among the newest of the name.
const changesOfName = `
WITH runs AS (
	SELECT digest, count(*) AS n, count(*) FILTER (WHERE ended_at IS NULL) AS open FROM (
		SELECT digest, ended_at FROM runner.v_runs WHERE namespace = $1 AND name = $3 AND kind = $2 ORDER BY run_id DESC LIMIT $4) newest
	 GROUP BY digest),
known AS (
	SELECT version, digest, changed_at, changed_by FROM catalog.changes WHERE (namespace, kind, name) = ($1, $2, $3)
	UNION ALL
	SELECT 0, v.digest, v.created_at, v.created_by FROM catalog.v_versions v
	 WHERE (v.namespace, v.kind, v.name) = ($1, $2, $3)
	   AND NOT EXISTS (SELECT FROM catalog.changes c WHERE (c.namespace, c.kind, c.name, c.digest) = ($1, $2, $3, v.digest)))
SELECT k.version, k.digest, k.changed_at, k.changed_by, coalesce(c.version = k.version, false), coalesce(r.n, 0), coalesce(r.open, 0)
  FROM known k
  LEFT JOIN catalog.v_current c ON (c.namespace, c.kind, c.name) = ($1, $2, $3)
  LEFT JOIN runs r ON r.digest = k.digest
 ORDER BY k.version DESC, k.changed_at DESC LIMIT $5`

// Changed implements console.DefinitionReader.
func (s *Store) Changed(ctx context.Context, namespace, kind, name string) ([]console.Version, error) {
	rows, err := s.pool.Query(ctx, changesOfName, namespace, kind, name, console.RunsByVersion, console.MaxVersions)
	if err != nil {
		return nil, fmt.Errorf("read the versions of %s %s: %w", kind, name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v console.Version, err error) {
		err = row.Scan(&v.Number, &v.Digest, &v.At, &v.By, &v.Current, &v.Runs, &v.Open)
		v.At = v.At.UTC()
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the versions of %s %s: %w", kind, name, err)
	}
	return out, nil
}

const activities = `
SELECT name, count(*), 0::bigint, 0::bigint, 0::bigint FROM runner.v_runs
 WHERE namespace = $1 AND kind = $2 AND ended_at IS NULL GROUP BY name
UNION ALL
SELECT name, 0, count(*), count(*) FILTER (WHERE status = $4), coalesce(sum(cost_micro_usd), 0)::bigint FROM runner.v_runs
 WHERE namespace = $1 AND kind = $2 AND ended_at >= $3 GROUP BY name
ORDER BY 1 LIMIT 20000`

// Activities implements console.DefinitionReader.
func (s *Store) Activities(ctx context.Context, namespace, kind string) (map[string]console.Activity, error) {
	out := map[string]console.Activity{}
	var name string
	var open, ended, failed, cost int64
	rows, err := s.pool.Query(ctx, activities, namespace, kind, time.Now().Add(-24*time.Hour), events.StatusFailed)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &open, &ended, &failed, &cost}, func() error {
			a := out[name]
			out[name] = console.Activity{Open: a.Open + open, Ended: a.Ended + ended, Failed: a.Failed + failed, CostMicroUSD: a.CostMicroUSD + cost}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("count the runs of each %s: %w", kind, err)
	}
	return out, nil
}
