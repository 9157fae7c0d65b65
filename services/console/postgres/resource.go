package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/console"
)

// One apply at a time: a reference that was checked must still hold at commit.
const lockCatalog = `LOCK TABLE catalog.current IN SHARE ROW EXCLUSIVE MODE`

const missingNeeds = `
SELECT n.i
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS n(kind, name, i)
 WHERE NOT EXISTS (SELECT 1 FROM catalog.current c WHERE c.namespace = $1 AND c.kind = n.kind AND c.name = n.name)
 ORDER BY n.i LIMIT 1000`

const insertVersion = `
INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING`

// A name that was deleted goes on counting where it ended.
const setCurrent = `
INSERT INTO catalog.current AS c (namespace, kind, name, digest, version, updated_by)
SELECT $1, $2, $3, $4, 1 + coalesce(max(d.version), 0), $5
  FROM catalog.deletions d WHERE d.namespace = $1 AND d.kind = $2 AND d.name = $3
ON CONFLICT (namespace, kind, name) DO UPDATE
   SET digest = excluded.digest, version = c.version + 1, updated_at = clock_timestamp(), updated_by = excluded.updated_by
 WHERE c.digest <> excluded.digest
RETURNING version`

const currentVersion = `SELECT version FROM catalog.current WHERE namespace = $1 AND kind = $2 AND name = $3`

// Apply implements console.ResourceStore.
func (s *Store) Apply(ctx context.Context, set console.Set) ([]console.Applied, error) {
	for _, d := range set.Documents {
		if err := pg.CleanJSON(d.Body); err != nil {
			return nil, fmt.Errorf("%s %s: %w", d.Kind, d.Name, err)
		}
	}
	var out []console.Applied
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockCatalog); err != nil {
			return err
		}
		if err := checkNeeds(ctx, tx, set); err != nil {
			return err
		}
		var err error
		out, err = store(ctx, tx, set)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("apply %d documents: %w", len(set.Documents), err)
	}
	return out, nil
}

func checkNeeds(ctx context.Context, tx pgx.Tx, set console.Set) error {
	if len(set.Needs) == 0 {
		return nil
	}
	kinds, names := make([]string, len(set.Needs)), make([]string, len(set.Needs))
	for i, n := range set.Needs {
		kinds[i], names[i] = n.Kind, n.Name
	}
	rows, err := tx.Query(ctx, missingNeeds, set.Namespace, kinds, names)
	if err != nil {
		return err
	}
	at, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(at) == 0 {
		return err
	}
	missing := &console.MissingError{}
	for _, i := range at {
		missing.Missing = append(missing.Missing, set.Needs[i-1])
	}
	return missing
}

func store(ctx context.Context, tx pgx.Tx, set console.Set) ([]console.Applied, error) {
	b := &pgx.Batch{}
	out := make([]console.Applied, len(set.Documents))
	for i, d := range set.Documents {
		out[i] = console.Applied{ResourceName: d.ResourceName, Namespace: set.Namespace, Digest: d.Digest}
		b.Queue(insertVersion, set.Namespace, d.Kind, d.Name, d.Digest, d.Body, set.Principal)
		b.Queue(setCurrent, set.Namespace, d.Kind, d.Name, d.Digest, set.Principal).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&out[i].Version)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil // the digest is current already
			}
			out[i].Changed = err == nil
			return err
		})
		b.Queue(currentVersion, set.Namespace, d.Kind, d.Name).QueryRow(func(row pgx.Row) error { return row.Scan(&out[i].Version) })
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return out, nil
}

const listResources = `
SELECT kind, name, namespace, digest, version, updated_at, NULL::json
  FROM catalog.v_current
 WHERE namespace = $1 AND ($2 = '' OR kind = $2) AND (kind, name) > ($3, $4)
 ORDER BY kind, name LIMIT $5`

// Resources implements console.ResourceStore.
func (s *Store) Resources(ctx context.Context, namespace, kind string, after console.ResourceName, limit int) ([]console.Resource, error) {
	rows, err := s.pool.Query(ctx, listResources, namespace, kind, after.Kind, after.Name, limit)
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanResource)
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", err)
	}
	return out, nil
}

const getResource = `
SELECT c.kind, c.name, c.namespace, c.digest, c.version, c.updated_at, v.body
  FROM catalog.v_current c
  JOIN catalog.v_versions v USING (namespace, kind, name, digest)
 WHERE c.namespace = $1 AND c.kind = $2 AND c.name = $3`

// Resource implements console.ResourceStore.
func (s *Store) Resource(ctx context.Context, namespace, kind, name string) (console.Resource, error) {
	rows, err := s.pool.Query(ctx, getResource, namespace, kind, name)
	if err != nil {
		return console.Resource{}, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanResource)
	return r, notFound(err, "get %s %s", kind, name)
}

func scanResource(row pgx.CollectableRow) (console.Resource, error) {
	var r console.Resource
	err := row.Scan(&r.Kind, &r.Name, &r.Namespace, &r.Digest, &r.Version, &r.UpdatedAt, &r.Body)
	r.UpdatedAt = r.UpdatedAt.UTC()
	return r, err
}
